"""What can go wrong."""


class DamagedError(ValueError):
    """A file or a message does not keep its format, or is not what its digest says."""


class NoVersionError(LookupError):
    """The pipeline has no version to predict with."""


class BrokersError(ConnectionError):
    """Brokers do not answer, or refuse."""


class NoTopicError(BrokersError):
    """A topic does not exist."""


# What is raised where JSON or tensors from a file or a topic have another form, or other numbers, than they should: NaN for a whole number, for example.
MISFITS = (ArithmeticError, AttributeError, IndexError, KeyError, MemoryError, RecursionError, TypeError, ValueError)
