"""A problem that cannot become a task, said in one sentence."""


class Refused(Exception):
    """The sentence names what stands in the way and, where there is one, the way round it."""
