"""Refused requests: a status, a code for programs, and a message for people."""

from __future__ import annotations

__all__ = ["RefusedError", "busy", "deadline_exceeded", "invalid", "too_large", "unavailable"]


class RefusedError(Exception):
    """A request that is refused, with the reason."""

    def __init__(self, status: int, code: str, message: str, retry_after: int = 0) -> None:
        """status: HTTP status; code: the reason in one word; retry_after: seconds, if a retry may succeed."""
        super().__init__(message)
        self.status, self.code, self.retry_after = status, code, retry_after


def invalid(message: str) -> RefusedError:
    """The request can never be answered, whenever it comes."""
    return RefusedError(422, "invalid", message)


def too_large(message: str) -> RefusedError:
    """The request exceeds a limit on a single request."""
    return RefusedError(413, "too_large", message)


def busy(message: str, retry_after: int) -> RefusedError:
    """The server has as much work as it accepts at once."""
    return RefusedError(429, "busy", message, retry_after)


def unavailable(message: str) -> RefusedError:
    """The server is starting or stopping, or its search has failed."""
    return RefusedError(503, "unavailable", message, 1)


def deadline_exceeded(seconds: float) -> RefusedError:
    """The deadline has passed; the request's sentences have left the batch."""
    return RefusedError(503, "deadline", f"not finished within {seconds:g} seconds; send less, or allow more", 1)
