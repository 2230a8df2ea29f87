"""What can go wrong."""


class DamagedError(ValueError):
    """A file or a message does not keep its format, or is not what its digest says."""


class NoVersionError(LookupError):
    """The pipeline has no version to predict with."""


class BrokersError(ConnectionError):
    """Brokers do not answer, or refuse."""
