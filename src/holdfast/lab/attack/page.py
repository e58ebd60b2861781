"""Probe of the page in a real Chromium: hostile messages, model output, Markdown, SVG and file names stay text."""

import asyncio
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from holdfast.lab.attack.browser import Tab, browser_tab, chromium_path
from holdfast.lab.attack.target import REPEATER, Outcome, Target

_OK = 200
_SECONDS_MAX, _LOOK_SECONDS = 20.0, 0.1
_OWN_SCHEMES = ("about:", "data:", "blob:")
# What each payload does if it runs.
_TITLE = "document.title='taken'"
_RUN = f"{_TITLE};window.taken=1"
_ELSEWHERE = "http://127.0.0.1:9/leak"
_PAYLOADS = {
    "a script": f"<script>{_RUN}</script>",
    "an image": f'<img src=x onerror="{_RUN}">',
    "a drawing": f'<svg xmlns="http://www.w3.org/2000/svg" onload="{_RUN}"><script>{_RUN}</script></svg>',
    "a frame": f"<iframe srcdoc=\"<script>parent.{_TITLE}</script>\"></iframe><object data='{_ELSEWHERE}'></object>",
    "a link": f'[here](javascript:{_RUN.replace(";", "%3B")}) <a href="javascript:{_RUN}">there</a>',
    "a link to data": f"[here](data:text/html;base64,PHNjcmlwdD4=) [there](vbscript:{_RUN})",
    "a picture elsewhere": f"![x]({_ELSEWHERE}) <img src='{_ELSEWHERE}'> ![y][z]\n\n[z]: {_ELSEWHERE}",
    "a style": f"<style>body{{background:url({_ELSEWHERE})}}</style><link rel=stylesheet href='{_ELSEWHERE}'>",
    "broken markup": (
        f'</div></main></body>"\'><details open ontoggle="{_RUN}"><math><mi xlink:href="javascript:{_RUN}">'
    ),
    "a code block": f"```html\n<script>{_RUN}</script>\n```\n`<img src=x onerror={_RUN}>`",
    "a form": (
        f'<form action="{_ELSEWHERE}"><button formaction="javascript:{_RUN}">x</button></form>'
        f'<base href="{_ELSEWHERE}">'
    ),
    "hidden text": "\u202egnp.exe\u202c \u2066hidden\u2069 \x1b[31m",
}
# Text of the last payload.
_LAST = "gnp.exe"
_NAMES = (
    f'"><img src=x onerror={_TITLE}>.txt',
    "../../../../etc/passwd",
    "drawing.svg",
    "\u202etxt.exe",
    "page.html",
)
# Nothing of this comes from the page itself.
_FOREIGN = """
[...document.querySelectorAll('*')].filter((one) =>
  one.matches(
    "script:not([src]):not([type=importmap]), iframe, object, embed, base, form[action], body link, body style, math," +
    "svg script, a[href^='javascript:' i], a[href^='data:' i], a[href^='vbscript:' i]"
  ) ||
  [...one.attributes].some((set) => set.name.startsWith("on")) ||
  (one.matches("img, script, video, audio, source") && one.src && !one.src.startsWith(location.origin) &&
    !one.src.startsWith("blob:" + location.origin) && !one.src.startsWith("data:image/"))
).map((one) => one.outerHTML.slice(0, 80))
"""  # fmt: skip


async def hostile_page(target: Target) -> Outcome:
    """Hostile text from people, models and files in the page: nothing of it runs, or is fetched from elsewhere."""
    outcome = Outcome()
    path = chromium_path()
    if path is None:
        outcome.skipped = "no Chromium was found; install one, or name it with HOLDFAST_CHROMIUM"
        return outcome
    target = replace(target, url=target.open_url, key="")
    shown = {await _say(target): _LAST, await _repeat(target): _LAST, await _attach(target): _NAMES[-1]}
    with tempfile.TemporaryDirectory(prefix="holdfast-attack-", ignore_cleanup_errors=True) as profile:
        async with browser_tab(path, Path(profile), target.http) as tab:
            for session, text in shown.items():
                address = f"{target.url}/#/s/{quote(session, safe='')}"
                await look(outcome, tab, address, text)
                await look(outcome, tab, f"{address}/view", "taken")
            await look(outcome, tab, f"{target.url}/#/search/taken", "taken")
            elsewhere = {url for url in tab.requested if not url.startswith((target.url, *_OWN_SCHEMES))}
            outcome.expect(not elsewhere, f"fetched from elsewhere: {', '.join(sorted(elsewhere))}")
            outcome.expect(not tab.dialogs, f"dialogs: {tab.dialogs}")
    return outcome


async def _say(target: Target) -> str:
    """Send every payload as a message, in a session whose name is hostile too."""
    session = f"<img src=x onerror={_TITLE}>"
    for payload in _PAYLOADS.values():
        body = json.dumps({"text": payload, "mode": "wait"}).encode()
        answer = await target.ask("POST", f"/api/sessions/{quote(session, safe='')}/messages", body)
        assert answer.status == _OK, answer.body
    return session


async def _repeat(target: Target) -> str:
    """Let a model answer with every payload, behind the proxy."""
    messages: list[object] = []
    session = ""
    for payload in _PAYLOADS.values():
        messages.append({"role": "user", "content": payload})
        body = json.dumps({"model": REPEATER, "messages": messages}).encode()
        answer = await target.ask("POST", "/v1/chat/completions", body)
        message = json.loads(answer.body)["choices"][0]["message"]
        assert message["content"] == payload, "the model repeats it"
        messages.append(message)
        session = answer.headers["x-holdfast-session"]
    return session


async def _attach(target: Target) -> str:
    """Send files with hostile names and contents."""
    uploads: list[object] = []
    for name in _NAMES:
        content = _PAYLOADS["a drawing"].encode() + b" " * 40_000
        headers = {"content-type": "application/octet-stream"}
        answer = await target.ask("POST", f"/api/attachments?name={quote(name, safe='')}", content, headers=headers)
        uploads.append({"upload": json.loads(answer.body)["upload"]})
    body = json.dumps({"text": "look at taken", "attachments": uploads, "mode": "wait"}).encode()
    answer = await target.ask("POST", "/api/sessions/files/messages", body)
    assert answer.status == _OK, answer.body
    return "files"


async def look(outcome: Outcome, tab: Tab, address: str, text: str) -> None:
    """Open a place of the page, wait until it shows a text, and expect that nothing of it is more than text."""
    await tab.open(address)
    is_shown = f"document.readyState === 'complete' && document.body.innerText.includes({json.dumps(text)})"
    try:
        async with asyncio.timeout(_SECONDS_MAX):
            while not await tab.evaluate(is_shown):  # noqa: ASYNC110 - the page has no event of ours
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        outcome.expect(False, f"{address}: the page did not show {text!r}")  # noqa: FBT003 - a failed expectation
        return
    # Images fail, and drawings load, after they are shown.
    await asyncio.sleep(_LOOK_SECONDS)
    is_taken = await tab.evaluate("window.taken === 1 || document.title === 'taken'")
    outcome.expect(not is_taken, f"{address}: a script ran")
    foreign = await tab.evaluate(_FOREIGN)
    outcome.expect(foreign == [], f"{address}: {foreign}")
