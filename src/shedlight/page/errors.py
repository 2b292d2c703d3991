"""The error of a request that cannot be met."""


class RequestError(Exception):
    """A request that cannot be met: the status of the response, and a sentence for it."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence
