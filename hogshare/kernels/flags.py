"""Numba's flags of a compilation, compared without a dictionary of all of them.

Numba looks every call of an overloaded function up by its types and by the flags, and its own
`Flags` lists all thirty options anew for each hash and each comparison: a twelfth of the time
that compiling takes.
"""

from numba.core.compiler import Compiler, CompilerBase
from numba.core.compiler import Flags as NumbaFlags

from hogshare.kernels import telling


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
        telling.tick()
        return super().compile_extra(func)


class KernelCompiler(QuickCompiler, Compiler):
    """Numba's own pipeline, for kernels, of whose time is told."""

    def compile_extra(self, func):
        """Compile a kernel."""
        name = f"{func.__module__.rpartition('.')[2]}.{func.__name__}"
        with telling.compiling(name, self.state.args):
            return super().compile_extra(func)
