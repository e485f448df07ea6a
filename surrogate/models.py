"""Language models by name: providers, keys, endpoints, concurrency, errors and cost."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast
from urllib.parse import urlsplit

import pydantic_ai
from pydantic_ai import Agent, RunContext
from pydantic_ai import exceptions as failures
from pydantic_ai.messages import UserContent
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RunUsage

from forewarp.core.errors import ModelError, UsageError
from forewarp.core.values import Cost
from forewarp.surrogate import prices
from forewarp.surrogate.prices import Prices

T = TypeVar("T")

CONCURRENCY = 4
TIMEOUT_S = 300.0
TIMEOUT_VARIABLE = "FOREWARP_MODEL_TIMEOUT_S"
"""Environment variable with the seconds that one answer may take, for models that are slow."""

_FORMS = "anthropic:NAME, openai:NAME, or openai:NAME with a base URL (vLLM, Ollama, llama.cpp, OpenRouter, …)"
_KEYS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
_URLS = {"anthropic": "ANTHROPIC_BASE_URL", "openai": "OPENAI_BASE_URL"}
_LOCAL_HOSTS = ("localhost", "::1", "0.0.0.0")
_TRANSIENT = (
    failures.ModelRateLimitError,
    failures.ModelUnavailableError,
    failures.ModelServerError,
    failures.ModelConnectionError,
    failures.ModelRequestTimeout,
    failures.RunTimedOut,
)
_TRANSIENT_STATUS = (408, 409, 425, 429)
_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """One reply: the value, or None with the `problem` where no well-formed reply came; what it cost either way."""

    value: T | None
    problem: str
    cost: Cost


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """A model with its label, its prices and how long an answer may take; one batch of calls at a time."""

    model: Model
    label: str
    local: bool = False
    timeout_s: float = field(default_factory=lambda: default_timeout_s())
    prices: Prices = field(default_factory=prices.load)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def cost(self, seconds: float, usage: RunUsage) -> Cost:
        """Return a call's cost, None dollars if unknown; cached input counts in full, writing it a quarter more."""
        read, written = usage.input_tokens, usage.output_tokens
        dollars = 0.0 if self.local else self.prices.dollars(self.label, read + usage.cache_write_tokens // 4, written)
        return Cost(seconds, read, written, dollars)

    def error(self, error: Exception) -> ModelError:
        """Return an error of the model's library in one sentence, retryable where the same call may succeed later."""
        status = getattr(error, "status_code", 0) or 0
        what, hint = _explained(error, status, self.label, getattr(error, "retry_after", None))
        found = ModelError(f"{what}{f' (HTTP {status})' if status else ''}: {_provider_words(error)}", hint=hint)
        by_status = status in _TRANSIENT_STATUS or status >= 500
        spent = isinstance(error, failures.ModelQuotaExceededError)
        found.retryable = not spent and (by_status or isinstance(error, (*_TRANSIENT, OSError)))
        return found

    def ask(
        self,
        system: str,
        prompts: Sequence[str | Sequence[UserContent]],
        output: type[T],
        *,
        check: Callable[[T, int], T] = lambda value, _: value,
        retries: int = 1,
        concurrency: int = CONCURRENCY,
    ) -> list[Answer[T] | ModelError]:
        """Ask every prompt, some at a time, and return one entry per prompt, in order; needs no running loop.

        `check` gets a value and its prompt's place, and may raise `pydantic_ai.ModelRetry` to send its text back; after
        `retries` of these, or of replies that are no `output`, the answer has no value. A provider that cannot be
        reached is a `ModelError` among the entries.
        """
        agent = Agent(self.model, deps_type=int, output_type=output, instructions=system, retries={"output": retries})

        @agent.output_validator
        def _(ctx: RunContext[int], value: T) -> T:
            return check(value, ctx.deps)

        async def batch() -> list[Answer[T] | ModelError]:
            gate = asyncio.Semaphore(max(1, concurrency))

            async def one(place: int, prompt: str | Sequence[UserContent]) -> Answer[T] | ModelError:
                async with gate:
                    return await self._one(agent, place, prompt)

            async with self.model:
                return list(await asyncio.gather(*(one(i, p) for i, p in enumerate(prompts))))

        with self._lock:
            return _run(batch)

    async def _one(
        self, agent: Agent[int, T], place: int, prompt: str | Sequence[UserContent]
    ) -> Answer[T] | ModelError:
        usage, start = RunUsage(), time.perf_counter()
        try:
            # The provider's SDK has a limit of its own, and would ask again when it is reached.
            settings = ModelSettings(timeout=self.timeout_s)
            run = agent.run(prompt, deps=place, usage=usage, timeout=self.timeout_s, model_settings=settings)
            value = (await run).output
        except failures.UnexpectedModelBehavior as e:
            return Answer(None, _reason(e), self.cost(time.perf_counter() - start, usage))
        except (failures.AgentRunError, failures.UserError, OSError) as e:
            return self.error(e)
        return Answer(value, "", self.cost(time.perf_counter() - start, usage))


def resolve(model: str | Model | LanguageModel, base_url: str = "") -> LanguageModel:
    """Return the model that `anthropic:NAME` or `openai:NAME` stands for, or wrap a built one; raises `ModelError`.

    With a base URL, `openai:NAME` speaks the Chat Completions API of compatible servers, and needs no key.
    """
    pydantic_ai.BANNER_ENABLED = False  # its place would be among what the terminal shows of the result
    if isinstance(model, LanguageModel):
        return model
    if isinstance(model, Model):
        return LanguageModel(model, model.model_id)
    provider, _, name = model.partition(":")
    if provider not in _KEYS or not name:
        raise ModelError(f"{model!r} names no model that forewarp can ask", hint=f"use {_FORMS}")
    url = base_url or os.environ.get(_URLS[provider], "")
    if url and not urlsplit(url).hostname:
        raise ModelError(f"{url!r} is no base URL", hint="write it as http://127.0.0.1:8000/v1")
    key = os.environ.get(_KEYS[provider], "")
    if not key and (provider == "anthropic" or not url):
        raise ModelError(
            f"no key for {model}: {_KEYS[provider]} is not set",
            hint=f"set {_KEYS[provider]}, serve a model yourself and pass its base URL, or go on without a model",
        )
    built = _anthropic(name, url, key) if provider == "anthropic" else _openai(name, url, key)
    host = urlsplit(url).hostname or ""
    local = host in _LOCAL_HOSTS or host.startswith("127.")
    return LanguageModel(built, f"{model}@{host}" if host else model, local=local)


def default_timeout_s() -> float:
    """Return the seconds that one answer may take; raises `UsageError` for a setting that is no such number."""
    given = os.environ.get(TIMEOUT_VARIABLE, "")
    try:
        seconds = float(given or TIMEOUT_S)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise UsageError(f"{TIMEOUT_VARIABLE} is {given!r}; it must be a number of seconds above 0")
    return seconds


def _anthropic(name: str, url: str, key: str) -> Model:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    return AnthropicModel(name, provider=AnthropicProvider(api_key=key, base_url=url or None))


def _openai(name: str, url: str, key: str) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    if url:
        return OpenAIChatModel(name, provider=OpenAIProvider(base_url=url, api_key=key or "none"))
    return OpenAIResponsesModel(name, provider=OpenAIProvider(api_key=key))


def _run(batch: Callable[[], Any]) -> Any:
    """Run the batch to its end here, or in a thread of its own if this thread's event loop is already running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(batch())
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(batch())).result()


def _reason(error: BaseException) -> str:
    cause = error.__cause__
    # Some libraries repeat the cause's words.
    text = str(error) if cause is None or str(error).endswith(str(cause)) else f"{error}: {cause}"
    return _one_line(text)


def _provider_words(error: Exception) -> str:
    """Return the message within the body of a provider's error, else the error's own text."""
    body: Any = getattr(error, "body", None)
    while isinstance(body, dict):
        inner: Any = cast("dict[str, Any]", body)
        body = inner.get("error") or inner.get("message") or inner.get("detail")
    return _one_line(body) if isinstance(body, str) and body.strip() else _reason(error)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_REASON].rstrip(".")


def _long(seconds: float) -> str:
    """Return a time to wait in the unit in which it is a small number."""
    size, unit = (1, "s") if seconds < 120 else (60, "min") if seconds < 7200 else (3600, "h")
    return f"{seconds / size:.0f} {unit}"


def _explained(error: Exception, status: int, label: str, wait_s: float | None) -> tuple[str, str]:
    """Return what happened and what to do, without the provider's own words."""
    match error:
        case failures.ModelContextWindowExceededError():
            return (
                f"the conversation is longer than {label} can read",
                "summarise it, or choose a model that reads more",
            )
        case failures.ContentFilterError():
            return f"the content filter of {label} stopped the answer", "say it in other words, or choose another model"
        case failures.ModelQuotaExceededError():
            return f"the account of {label} has no credit left", "add credit at the provider, or choose another model"
        case failures.ModelAuthenticationError() | failures.ModelHTTPError(status_code=401 | 403):
            key = _KEYS.get(label.partition(":")[0], "its variable")
            refused = "access" if status == 403 else "the key"
            return f"{label} refused {refused}", f"check the key in {key}, and that it may use this model"
        case failures.ModelNotFoundError() | failures.ModelHTTPError(status_code=404):
            return f"{label} was not found", "check the model's name and the base URL, which mostly ends in /v1"
        case failures.ModelRateLimitError():
            wait = f"in {_long(wait_s)}" if wait_s else "later"
            return f"{label} gets too many requests or tokens", f"try again {wait}, or choose another model"
        case failures.ModelTimeoutError() | failures.ModelRequestTimeout() | failures.RunTimedOut():
            return f"{label} took too long", f"try again later, or allow more seconds by {TIMEOUT_VARIABLE}"
        case failures.ModelConnectionError() | OSError():
            return f"{label} cannot be reached", "check the network, the base URL, and that the server runs"
        case failures.UnexpectedModelBehavior():
            return f"{label} gave no answer that can be used", "ask again, or choose another model"
        case failures.ModelRequestRejectedError() | failures.UserError():
            return f"{label} does not accept this request", "choose another model, or update forewarp"
        case _ if status >= 500:
            return f"{label} has trouble", "try again later, or choose another model"
        case _:
            return f"{label} gave no answer", "try again later, or check the network and the base URL"
