"""Requests that are refused: a status, a name for programs, and a sentence for people."""

from __future__ import annotations

__all__ = ["RefusedError", "busy", "invalid", "late", "too_large", "unavailable"]


class RefusedError(Exception):
    """A request that gets no answer but the reason."""

    def __init__(self, status: int, code: str, message: str, retry_after: int = 0) -> None:
        """status: of HTTP; code: the reason in one word; retry_after: seconds, where trying again helps."""
        super().__init__(message)
        self.status, self.code, self.retry_after = status, code, retry_after


def invalid(message: str) -> RefusedError:
    """What cannot be done with this request, whenever it comes."""
    return RefusedError(422, "invalid", message)


def too_large(message: str) -> RefusedError:
    """More than one request may hold."""
    return RefusedError(413, "too_large", message)


def busy(message: str, retry_after: int) -> RefusedError:
    """More than is worked on at once."""
    return RefusedError(429, "busy", message, retry_after)


def unavailable(message: str) -> RefusedError:
    """Not now: the server starts, ends, or its search has failed."""
    return RefusedError(503, "unavailable", message, 1)


def late(seconds: float) -> RefusedError:
    """The deadline has passed; its sentences have left the batch."""
    return RefusedError(503, "deadline", f"not finished within {seconds:g} seconds; send less, or allow more", 1)
