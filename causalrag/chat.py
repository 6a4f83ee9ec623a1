"""A chat model behind any OpenAI-compatible address: a local server or a hosted one.

The package `openai` (extra ``llm``) speaks to the server, with its retries and timeouts;
`ChatModel` adds errors that name the address and the remedy, and keeps the key out of them. It
starts no server and remembers no answer.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from numbers import Integral, Real
from typing import Any
from urllib.parse import urlsplit

__all__ = ["ChatError", "ChatModel"]

_ROLES = ("system", "developer", "user", "assistant")
# The client refuses to work without a key; servers that need none ignore it.
_NO_KEY = "none"
_REMEDIES = {
    400: "the server may not know the model, JSON answers, `temperature` or `seed`, or the text is "
    "too long for it",
    403: "the key has no right to this model",
    404: "check the model's name, and that base_url is where the server's API starts (mostly /v1)",
    413: "the text is too long for the server",
    429: "wait, or raise max_retries",
}


class ChatError(RuntimeError):
    """The chat model gave no usable answer; the message names the address and the remedy."""


class ChatModel:
    """A model behind the chat-completions protocol of OpenAI, which most servers speak.

    Parameters
    ----------
    model : str
        The name under which the server knows the model.
    base_url : str
        Where the server's API starts, such as ``http://127.0.0.1:8080/v1``.
    api_key : str, optional
        By default the environment variable ``OPENAI_API_KEY``, which is then sent to `base_url`,
        whatever it is. Servers on one's own machine mostly need none.
    timeout : float
        Seconds to wait for the connection, and for each next part of an answer.
    max_retries : int
        How often a request is sent again when there was no answer in time or none at all, or one
        with status 408, 409, 429 or 500 and above; with growing pauses (from 0.5 to 8 s).
    temperature : float or None
        0 asks for the most probable answer. None leaves it to the server.
    seed : int or None
        Passed to servers that draw. None is not passed.

    Raises
    ------
    ImportError
        If the package is missing; the message holds the install line.
    TypeError, ValueError
        If an argument is unusable. No message repeats a key.

    Examples
    --------
    >>> chat = ChatModel("qwen3-4b", "http://127.0.0.1:8080/v1")  # doctest: +SKIP
    >>> chat.complete([{"role": "user", "content": "Say yes."}])  # doctest: +SKIP
    'Yes.'
    """

    def __init__(
        self,
        model: str,
        base_url: str,
        api_key: str | None = None,
        timeout: float = 60.0,
        max_retries: int = 2,
        temperature: float | None = 0.0,
        seed: int | None = 0,
    ) -> None:
        if not isinstance(model, str):
            raise TypeError(f"model must be the name of a model, got {model!r}")
        if not model.strip():
            raise ValueError(f"model must be the name of a model, got {model!r}")
        self.model = model
        self.base_url = _checked_address(base_url)
        self.timeout = _checked_number("timeout", timeout, above=0.0)
        self.max_retries = _checked_retries(max_retries)
        self.temperature = (
            None if temperature is None else _checked_number("temperature", temperature)
        )
        self.seed = seed
        self._key = _checked_key(api_key)
        self._library = _import_openai()
        self._client = self._library.OpenAI(
            api_key=self._key or _NO_KEY,
            base_url=self.base_url,
            timeout=self.timeout,
            max_retries=self.max_retries,
        )

    def __repr__(self) -> str:
        return f"<ChatModel {self.model!r} at {self.base_url}>"

    def __reduce__(self) -> Any:
        raise TypeError("a ChatModel is not copied or pickled, for its key would go along")

    def complete(self, messages: Sequence[Mapping[str, str]], json: bool = False) -> str:
        """Answer a conversation.

        Parameters
        ----------
        messages : sequence of mapping
            Each with ``role`` (system, developer, user or assistant) and ``content``.
        json : bool
            Ask the server for a JSON object (``response_format``); the messages must ask for JSON
            too. The answer is not parsed here.

        Returns
        -------
        str
            The answer as the server gave it.

        Raises
        ------
        ChatError
            If the server is not reachable, gives no answer in time, refuses the request, or answers
            with nothing or not by the protocol.
        TypeError, ValueError
            If a message is unusable.
        """
        request: dict[str, Any] = {"model": self.model, "messages": _checked_messages(messages)}
        if self.temperature is not None:
            request["temperature"] = self.temperature
        if self.seed is not None:
            request["seed"] = self.seed
        if json:
            request["response_format"] = {"type": "json_object"}
        answer, problem = None, ""
        try:
            answer = self._client.chat.completions.create(**request)
        except self._library.OpenAIError as error:
            problem = self._explain(error)
        except ValueError as error:  # an answer that is not JSON
            problem = self._foreign(str(error))
        # Raised here, not above: the client's own error may repeat the key, so it is not the cause.
        if problem:
            raise self._error(problem)
        return self._content(answer)

    def _content(self, answer: Any) -> str:
        choices = getattr(answer, "choices", None)
        first = choices[0] if isinstance(choices, list) and choices else None
        message = getattr(first, "message", None)
        if message is None:
            raise self._error(self._foreign(repr(answer)))
        content = message.content
        if not isinstance(content, str) or not content.strip():
            reason = getattr(first, "finish_reason", None)
            raise self._error(
                f"gave an empty answer (finish reason {reason!r}); with 'length' let the server "
                "write longer answers, otherwise look at its log or try another model"
            )
        return content

    def _explain(self, error: Any) -> str:
        if isinstance(error, self._library.APITimeoutError):
            return (
                f"gave no answer within {self.timeout:g} s ({self.max_retries + 1} requests); "
                "raise timeout, or take a smaller model or a shorter text"
            )
        if isinstance(error, self._library.APIConnectionError):
            cause = self._shown(str(error.__cause__ or error))
            return f"is not reachable ({cause}); start the server, or correct base_url"
        status = getattr(error, "status_code", None)
        if status is None or status < 400:
            return self._foreign(str(error))
        if status == 401:
            wants = "refuses the key: pass another" if self._key else "wants a key: pass"
            remedy = f"the server {wants} api_key or set OPENAI_API_KEY"
        else:
            remedy = _REMEDIES.get(status, "look at the server's log")
        return f"answered with status {status} ({self._shown(error.message)}); {remedy}"

    def _foreign(self, answer: str) -> str:
        shown = self._shown(answer)
        return f"did not answer by the chat-completions protocol ({shown}); {_REMEDIES[404]}"

    def _shown(self, text: str) -> str:
        """Shorten a text of the server for an error, the key taken out of it first."""
        plain = text.replace(self._key, "***") if self._key else text
        return plain if len(plain) <= 300 else plain[:300] + "..."

    def _error(self, problem: str) -> ChatError:
        return ChatError(f"the model {self.model!r} at {self.base_url} {problem}")


def _import_openai() -> Any:
    try:
        return import_module("openai")
    except ImportError as error:
        raise ImportError(
            f"ChatModel needs the extra 'llm' (importing openai failed: {error}). "
            'Install it with: pip install "causalrag[llm]"'
        ) from error


def _checked_address(base_url: str) -> str:
    if not isinstance(base_url, str):
        raise TypeError(f"base_url must be a string, got {type(base_url).__name__}")
    example = "give an address such as http://127.0.0.1:8080/v1"
    try:
        parts = urlsplit(base_url.strip())
        host = parts.hostname
        parts.port  # noqa: B018  (raises if it is no port)
    except ValueError as error:
        raise ValueError(f"base_url is no address ({error}); {example}") from error
    if parts.username is not None or parts.query or parts.fragment:
        # Not shown: it may hold a password or a key.
        raise ValueError(
            f"base_url must not hold a user, a query or a fragment; {example}, and a key as api_key"
        )
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError(f"base_url {base_url!r} is no http address; {example}")
    address = base_url.strip().rstrip("/")
    if address.endswith("/chat/completions"):
        raise ValueError(
            f"base_url {base_url!r} must end before /chat/completions: the client adds that"
        )
    return address


def _checked_key(api_key: str | None) -> str:
    """Give the key, or "" if there is none; what is wrong with it is said without showing it."""
    if api_key is None:
        api_key = os.environ.get("OPENAI_API_KEY", "")
    if not isinstance(api_key, str):
        raise TypeError(f"api_key must be a string, got {type(api_key).__name__}")
    key = api_key.strip()
    if not all("!" <= character <= "~" for character in key):
        raise ValueError("api_key holds a space or a non-ASCII character; check how it was read")
    return key


def _checked_number(name: str, value: float, above: float = -math.inf) -> float:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not (math.isfinite(value) and value > above):
        raise ValueError(f"{name} is {value}; give a finite number above {above:g}")
    return float(value)


def _checked_retries(max_retries: int) -> int:
    if not isinstance(max_retries, Integral) or isinstance(max_retries, bool):
        raise TypeError(f"max_retries must be an integer, got {max_retries!r}")
    if max_retries < 0:
        raise ValueError(f"max_retries is {max_retries}; give 0 or more")
    return int(max_retries)


def _checked_messages(messages: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    example = 'give a list such as [{"role": "user", "content": "..."}]'
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise TypeError(f"messages are a {type(messages).__name__}; {example}")
    if not messages:
        raise ValueError(f"there is no message; {example}")
    checked = []
    for place, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise TypeError(f"message {place} is a {type(message).__name__}; {example}")
        role, content = message.get("role"), message.get("content")
        if role not in _ROLES:
            raise ValueError(f"message {place} has role {role!r}; known: {', '.join(_ROLES)}")
        if not isinstance(content, str):
            raise TypeError(f"message {place} has content {content!r:.60}, not a string; {example}")
        # Lone surrogates become "?": no server could read them.
        checked.append({"role": role, "content": content.encode("utf-8", "replace").decode()})
    return checked
