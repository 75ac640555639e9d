"""Numba's pipelines, changed in two ways that shorten a first fit.

First, Numba finds every call of an overloaded function by its types and by the flags. Numba's own
`Flags` lists all thirty options anew for each hash and each comparison, which takes a twelfth of
the time of compiling. The `Flags` of this file compare only the options that have been set.

Second, no machine code is made for a helper: it is lowered to LLVM code, which the kernels that
call the helper link in. Numba itself optimises every function with all functions that it calls, and
makes machine code of the result; each caller of the function repeats this work. But no code jumps
to a helper's machine code. Without this machine code a first fit compiles in seven tenths of the
time. The kernels are as fast (docs/tried/2026-11/speed.md), because LLVM optimises each kernel as a
whole.

To do this, one pass is added before Numba's lowering and one pass after it. The first pass gives
the helper a library that is only linked. The second pass registers the helper for its callers;
Numba does this when it makes the machine code.
"""

import contextlib
import gc

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompilerBase, DefaultPassBuilder
from numba.core.compiler import Flags as NumbaFlags
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.typed_passes import AnnotateTypes, NativeLowering

from hogshare.kernels.jit import announcements

GARBAGE = (100_000, 20, 100)  # of `gc`: objects between searches, searches per generation


# Numba's passes for closures and for whole-array expressions; helpers have neither
UNUSED = {"inline_closure_likes", "nopython_rewrites", "make_function_op_code_to_jit_function"}


class Flags(NumbaFlags):
    """Flags that are equal if the same options have been set to the same values.

    Two `Flags` are unequal if an option is set to its default in one and is not set in the other;
    Numba's flags would be equal. So a function may be compiled once more. All `Flags` have the same
    hash, the hash of Numba's default flags.
    """

    HASH = hash(NumbaFlags())

    def __eq__(self, other):
        """Compare the options that have been set."""
        if type(other) is not Flags:
            return NotImplemented
        return self._values == other._values

    def __hash__(self):
        """Return the hash of Numba's default flags, because these flags may be equal to them."""
        return self.HASH


class QuickCompiler(CompilerBase):
    """A pipeline with the `Flags` of this file; they also apply to the functions that it calls."""

    def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals):
        super().__init__(typingctx, targetctx, library, args, return_type, Flags(flags), locals)

    def compile_extra(self, func):
        """Check whether compiling takes long enough to be announced, and compile a function."""
        announcements.tick()
        return super().compile_extra(func)


class KernelCompiler(QuickCompiler, Compiler):
    """Numba's own pipeline, for kernels; its time counts for the announcement."""

    def compile_extra(self, func):
        """Compile a kernel."""
        name = f"{func.__module__.rpartition('.')[2]}.{func.__name__}"
        with announcements.compiling(name, self.state.args), _collecting_less():
            return super().compile_extra(func)


@contextlib.contextmanager
def _collecting_less():
    """Let Python search for garbage less often inside this context.

    Numba's trees are large and live until compiling ends, and each search walks through the trees.
    Fewer searches save a sixth of the time of compiling, and use some ten megabytes more.
    """
    # under Numba's lock, so no other thread that compiles changes the thresholds in between
    before = gc.get_threshold()
    if before[0] > 0:
        gc.set_threshold(*GARBAGE)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class LinkedLibrary(JITCodeLibrary):
    """LLVM code that is only linked into other libraries."""

    def _optimize_final_module(self):
        pass  # each function has been simplified; the kernel is optimised once, as a whole

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
        """Choose the library, from which no machine code is made."""
        state.library = LinkedLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        return False


@register_pass(mutates_CFG=False, analysis_only=True)
class ForCallers(AnalysisPass):
    """Register the lowered function for its callers."""

    _name = "hogshare_for_callers"

    def __init__(self):
        super().__init__()

    def run_pass(self, state):
        """Register as `NativeLowering` does, with a key in place of the machine code's entry."""
        # a new bound method of a built-in type: it equals no other key, and the dispatcher accepts
        # only built-in functions
        key = [].append
        state.targetctx.insert_user_function(key, state.cr.fndesc, [state.library])
        state.cr = state.cr._replace(cfunc=key)
        return False


class HelperCompiler(QuickCompiler):
    """Numba's own pipeline with the two added passes."""

    def define_pipelines(self):
        """Define one pipeline, without object mode."""
        made = DefaultPassBuilder.define_nopython_pipeline(self.state)
        made.add_pass_after(OnlyLinked, AnnotateTypes)
        made.add_pass_after(ForCallers, NativeLowering)
        made.passes = [one for one in made.passes if one[0].name() not in UNUSED]
        made.finalize()
        return [made]
