"""What a node refuses, and what keeps it from answering. None of these is a verdict on a variant."""

from __future__ import annotations

from typing import Dict, Optional


class Cudal1Error(Exception):
    """`code` is for programs, `hint` says what to do."""

    def __init__(self, message: str, *, code: str = "", hint: str = "", status: int = 0, retry_after: float = 0.0):
        super().__init__(f"{message} ({hint})" if hint else message)
        self.message, self.code, self.hint, self.status, self.retry_after = message, code, hint, status, retry_after


class InvalidRequest(Cudal1Error):
    """The request must be changed."""


class NotFound(Cudal1Error):
    """There is no such task, variant, job or search."""


class NotAllowed(Cudal1Error):
    """A token, or a permission of it, is missing."""


class TooManyRequests(Cudal1Error):
    """A limit of this client is reached: `retry_after` seconds from now it is not."""


class InfrastructureError(Cudal1Error):
    """The node, its machine or the network failed. Nothing was scored: repeat the request, and give no reward."""


class TimeLimit(InfrastructureError):
    """There was no verdict within the time that the caller allowed."""


def error_of(status: int, document: object, retry_after: float) -> Cudal1Error:
    """The exception for an answer of this status."""
    error = document.get("error") if isinstance(document, dict) else None
    error = error if isinstance(error, dict) else {}
    kinds = {401: NotAllowed, 403: NotAllowed, 404: NotFound, 429: TooManyRequests}
    kind = kinds.get(status, InfrastructureError if status >= 500 else InvalidRequest)
    message = str(error.get("message") or f"the node answered with status {status}")
    return kind(message, code=str(error.get("code") or ""), hint=str(error.get("hint") or ""), status=status,
                retry_after=retry_after)


def fault_of(error: Dict[str, str], where: Optional[str] = None) -> Cudal1Error:
    """The exception for an evaluation that ended without a verdict."""
    code = str(error.get("code") or "")
    kind = {"not_found": NotFound, "invalid_argument": InvalidRequest}.get(code, InfrastructureError)
    message = str(error.get("message") or "the evaluation ended without a verdict")
    return kind(f"{where}: {message}" if where else message, code=code, hint=str(error.get("hint") or ""))
