"""How a helper reaches the kernels that call it: as it was lowered, and in no other form.

Numba optimises every function by itself, with all that it calls inside, and makes machine code of
it, before a caller links it in and does the same again. Nobody jumps to a helper's machine code.
Without it a first fit compiles in seven tenths of the time, to kernels that are as quick
(docs/tried/2026-11/speed.md): LLVM optimises them as a whole in any case.

Two passes stand before and after Numba's lowering. One gives the helper a library that is only
linked, the other registers it for its callers, which Numba does together with the machine code.
"""

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.typed_passes import AnnotateTypes, NativeLowering

from hogshare.kernels.flags import QuickCompiler


class LinkedLibrary(JITCodeLibrary):
    """LLVM code that is there to be linked into other libraries."""

    def _optimize_final_module(self):
        pass  # it has been simplified function by function; the rest is done once, in the kernel

    def _finalize_final_module(self):
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


@register_pass(mutates_CFG=False, analysis_only=True)
class OnlyLinked(AnalysisPass):
    """Lower into a library that is only linked."""

    _name = "hogshare_only_linked"

    def __init__(self):
        super().__init__()

    def run_pass(self, state):
        """Choose the library; no machine code is asked of it."""
        state.library = LinkedLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        return False


@register_pass(mutates_CFG=False, analysis_only=True)
class ForCallers(AnalysisPass):
    """Register what was lowered."""

    _name = "hogshare_for_callers"

    def __init__(self):
        super().__init__()

    def run_pass(self, state):
        """As `NativeLowering` does with machine code; the key stands where its entry would."""
        key = [].append  # equal to no other one, and built in: the dispatcher takes nothing else
        state.targetctx.insert_user_function(key, state.cr.fndesc, [state.library])
        state.cr = state.cr._replace(cfunc=key)
        return False


class HelperCompiler(QuickCompiler):
    """Numba's own pipeline with the two passes."""

    def define_pipelines(self):
        """One pipeline, without object mode."""
        made = DefaultPassBuilder.define_nopython_pipeline(self.state)
        made.add_pass_after(OnlyLinked, AnnotateTypes)
        made.add_pass_after(ForCallers, NativeLowering)
        made.finalize()
        return [made]
