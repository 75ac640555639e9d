"""Numba's pipelines, changed in two ways that shorten a first fit.

Numba looks every call of an overloaded function up by its types and by the flags, and its own
`Flags` lists all thirty options anew for each hash and each comparison: a twelfth of the time
that compiling takes. These compare what has been set.

A helper reaches the kernels that call it as it was lowered, and in no other form. Numba optimises
every function by itself, with all that it calls inside, and makes machine code of it, before a
caller links it in and does the same again. Nobody jumps to a helper's machine code. Without it a
first fit compiles in seven tenths of the time, to kernels that are as quick
(docs/tried/2026-11/speed.md): LLVM optimises them as a whole in any case.

Two passes stand before and after Numba's lowering. One gives the helper a library that is only
linked, the other registers it for its callers, which Numba does together with the machine code.
"""

import contextlib
import gc

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompilerBase, DefaultPassBuilder
from numba.core.compiler import Flags as NumbaFlags
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.typed_passes import AnnotateTypes, NativeLowering

from hogshare.kernels.jit import announcements

GARBAGE = (100_000, 20, 100)  # objects between two searches, and how many go without older ones


# Numba's passes for closures and for expressions of whole arrays, neither of which helpers have
UNUSED = {"inline_closure_likes", "nopython_rewrites", "make_function_op_code_to_jit_function"}


class Flags(NumbaFlags):
    """Flags that are equal where the same options have been set to the same values.

    One that is set to its default is unequal to one that is not set, where Numba's are equal: then
    something is compiled once more. The hash is Numba's, which is the same for all flags.
    """

    HASH = hash(NumbaFlags())

    def __eq__(self, other):
        """Compare what has been set."""
        if type(other) is not Flags:
            return NotImplemented
        return self._values == other._values

    def __hash__(self):
        """Return what Numba's have for a hash: they may be equal to these."""
        return self.HASH


class QuickCompiler(CompilerBase):
    """A pipeline with these flags; what it compiles on its way looks up by them too."""

    def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals):
        super().__init__(typingctx, targetctx, library, args, return_type, Flags(flags), locals)

    def compile_extra(self, func):
        """Compile a function; a moment to see how long all that takes."""
        announcements.tick()
        return super().compile_extra(func)


class KernelCompiler(QuickCompiler, Compiler):
    """Numba's own pipeline, for kernels, of whose time is told."""

    def compile_extra(self, func):
        """Compile a kernel."""
        name = f"{func.__module__.rpartition('.')[2]}.{func.__name__}"
        with announcements.compiling(name, self.state.args), _collecting_less():
            return super().compile_extra(func)


@contextlib.contextmanager
def _collecting_less():
    """Let Python search for garbage less often meanwhile.

    Numba's trees are large and live until the end, and each search walks them: a sixth of the time
    that compiling takes, for some ten megabytes. Who compiles has Numba's lock, so that nobody
    else's thresholds are put back.
    """
    before = gc.get_threshold()
    if before[0] > 0:
        gc.set_threshold(*GARBAGE)
    try:
        yield
    finally:
        gc.set_threshold(*before)


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
        made.passes = [one for one in made.passes if one[0].name() not in UNUSED]
        made.finalize()
        return [made]
