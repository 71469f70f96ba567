"""Which client speaks to which provider (providers.md, *Provider families*). In: a block's settings. Out: a Model.

One rule: nothing is connected, imported or read (not the key either) before the first request.
Known weakness: a provider that isn't in the table must name its base URL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from a3s_code.errors import ConfigError
from a3s_code.ports.model import Model
from a3s_code.providers.client import HttpModel
from a3s_code.providers.http import HttpTransport

_ANTHROPIC: Final = frozenset({"anthropic", "claude"})
_BASE_URLS: Final = {
    "anthropic": "https://api.anthropic.com",
    "claude": "https://api.anthropic.com",
    "openai": "https://api.openai.com",
    "gpt": "https://api.openai.com",
    "glm": "https://open.bigmodel.cn/api/paas/v4",
    "zhipu": "https://open.bigmodel.cn/api/paas/v4",
    "bigmodel": "https://open.bigmodel.cn/api/paas/v4",
}


def make_client(
    family: str,
    *,
    base_url: str | None,
    api_key: Callable[[], str | None],
    headers: Mapping[str, str],
    model: str,
    images: bool = True,
    transport: HttpTransport | None = None,
) -> Model:
    """The client of the block ``family``. Without ``transport`` it has one of its own, which its ``aclose`` closes.
    Raises ``ConfigError`` for a missing or bad base URL."""
    if family == "offline":
        from a3s_code.providers.offline import Scout

        return Scout()
    address = base_url or _BASE_URLS.get(family)
    if address is None:
        raise ConfigError(f'providers "{family}" needs a baseUrl')
    return _kind(family)(
        transport or HttpTransport(),
        base_url=address,
        api_key=api_key,
        headers=headers,
        model=model,
        images=images,
        owns_transport=transport is None,
    )


def _kind(family: str) -> type[HttpModel]:
    """Imported here, as a program rarely needs both."""
    if family in _ANTHROPIC:
        from a3s_code.providers.anthropic.client import AnthropicModel

        return AnthropicModel
    from a3s_code.providers.openai.client import OpenAiModel

    return OpenAiModel


class Providers:
    """The clients of one agent: those of one provider share their connections."""

    def __init__(self) -> None:
        self._transports: dict[tuple[str, str | None], HttpTransport] = {}
        self._latest: tuple[object, Model] | None = None

    def client(
        self,
        family: str,
        *,
        base_url: str | None,
        api_key: Callable[[], str | None],
        headers: Mapping[str, str],
        model: str,
        images: bool = True,
        text_tool_calls: bool = False,
    ) -> Model:
        """As ``make_client``, or with ``text_tool_calls`` one that finds calls in the text; ``aclose`` of such a client
        leaves the shared connections open. Clients keep nothing of a conversation, so the next session of the same
        settings gets the same one."""
        settings = (family, base_url, api_key, headers, model, images, text_tool_calls)
        latest = self._latest
        if latest is None or latest[0] != settings:
            client = make_client(
                family,
                base_url=base_url,
                api_key=api_key,
                headers=headers,
                model=model,
                images=images,
                transport=self._transports.setdefault((family, base_url), HttpTransport()),
            )
            if text_tool_calls:
                from a3s_code.providers.textcalls import TextCallsModel  # few models need it

                client = TextCallsModel(client)
            latest = self._latest = (settings, client)
        return latest[1]

    async def aclose(self) -> None:
        transports, self._transports, self._latest = self._transports, {}, None
        for transport in transports.values():
            await transport.aclose()
