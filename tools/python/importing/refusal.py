"""The error for a problem that cannot become a task."""


class Refused(Exception):
    """One sentence with the reason and, if there is one, a workaround."""
