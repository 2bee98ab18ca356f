"""Exceptions and warnings of gradtape.

Names follow TensorFlow; each class is also the Python builtin a reader would expect, so `except ValueError` catches an
`InvalidArgumentError`. This file holds no logic: messages are written where the facts are known.
"""


class OpError(Exception):
    """Base of the errors an operation raises about its inputs."""


class InvalidArgumentError(OpError, ValueError):
    """An operation received shapes, dtypes, axes or values it cannot work with."""


class OutOfRangeError(OpError, IndexError):
    """An index lies outside the tensor it indexes."""


class InvalidIndexError(InvalidArgumentError, IndexError):
    """An index or label among the values of an argument lies outside what it chooses from.

    TensorFlow raises InvalidArgumentError here; Python programmers expect an IndexError: it is both.
    """


class InternalError(OpError, RuntimeError):
    """gradtape broke one of its own rules: please report it."""


class UnimplementedError(OpError, NotImplementedError):
    """The operation exists, but not for these arguments."""


class FailedPreconditionError(OpError, RuntimeError):
    """The call came at a moment when the object cannot serve it."""


class NotFoundError(OpError, FileNotFoundError):
    """A file, or a name inside a file, does not exist."""


class DataLossError(OpError, OSError):
    """A file is damaged."""


# TensorFlow's other names: gradtape raises none of them, programs catch them
class AbortedError(OpError, RuntimeError):
    """The operation was given up, typically because others were doing the same."""


class AlreadyExistsError(OpError, FileExistsError):
    """What was to be made is there already."""


class CancelledError(OpError, RuntimeError):
    """Somebody asked for an end."""


class DeadlineExceededError(OpError, TimeoutError):
    """It took longer than it may."""


class PermissionDeniedError(OpError, PermissionError):
    """The system does not allow it."""


class ResourceExhaustedError(OpError, MemoryError):
    """There is not enough memory, or whatever else it takes."""


class UnauthenticatedError(OpError, PermissionError):
    """Nobody knows who asks."""


class UnavailableError(OpError, ConnectionError):
    """What is needed does not answer now."""


class UnknownError(OpError, RuntimeError):
    """Something went wrong, and nobody knows what."""


class InaccessibleTensorError(OpError, ValueError):
    """A traced tensor was used outside the function that made it."""


class OperatorNotAllowedInGraphError(OpError, TypeError):
    """A traced tensor was used where Python needs a concrete value."""

    tensor: object = None  # the tensor that was asked


class NumberDoesNotFitError(OpError, TypeError):
    """A Python number that the dtype it gives way to cannot hold."""


class StaticDimensionNeeded(OpError, TypeError):  # noqa: N818 (a fact about the program, named as one)
    """Python needs the value of a dimension that is known only when the program runs."""


class UnconnectedGradientError(OpError, ValueError):
    """`UnconnectedGradients.RAISE` was asked for and a source is not connected to the target."""


class GradientWarning(UserWarning):
    """Something about a derivative that is legal but probably not what was meant."""


class RetracingWarning(UserWarning):
    """A `gt.function` is traced again and again; the message says for which argument and how to avoid it."""


class FunctionMismatchError(AssertionError):
    """`gt.function(check=True)` found that the traced program and the Python function differ."""


class AutographWarning(UserWarning):
    """A function is traced as it is, because its source could not be found or rewritten."""
