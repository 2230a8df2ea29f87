"""What can go wrong, beside a ValueError for wrong rows, files and parameters."""


class DamagedError(ValueError):
    """A file is no model, or is damaged."""


class NoVersionError(LookupError):
    """The pipeline has no version to predict with."""


class BrokersError(ConnectionError):
    """Brokers do not answer, or refuse, or do not have the topics of the pipeline."""


class ProgramError(RuntimeError):
    """The program is missing, or has ended as it should not."""
