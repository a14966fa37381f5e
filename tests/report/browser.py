"""A report in a real browser: Debian's or any other chromium, without a window.

A copy of the page gets two scripts more: one before all others, which collects errors, and one
after them, which uses the page as a reader would and writes what it found into the page. The
policy of the page is told the hashes of these two; nothing else changes.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--no-default-browser-check", "--disable-extensions",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--dump-dom",
    "--virtual-time-budget=4000",
)  # fmt: skip

BEFORE = """
window.seen = [];
addEventListener("error", (e) => seen.push(`error: ${e.message || e.target.outerHTML}`), true);
addEventListener("unhandledrejection", (e) => seen.push(`rejected: ${e.reason}`));
document.addEventListener("securitypolicyviolation", (e) =>
  seen.push(`refused: ${e.violatedDirective} ${e.blockedURI}`));
for (const kind of ["error", "warn"]) console[kind] = (...args) => seen.push(`${kind}: ${args}`);
"""

FRAME = """<!DOCTYPE html><title>frame</title><pre id="found"></pre>
<script>
addEventListener("message", (e) => {{ document.getElementById("found").textContent = e.data; }});
</script>
<iframe src="{page}" width="{width}" height="900" style="border:0"></iframe>
"""

AFTER = Path(__file__).with_name("reader.js").read_text(encoding="utf-8")


def find_chromium():
    """Return the browser, or skip the test."""
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        if found := shutil.which(name):
            return found
    pytest.skip("a browser: install chromium to test reports in it")
    return None


def open_in_browser(page: str, folder: Path, width: int = 1280, *, dark: bool = False):
    """Return what the scripts have found, and what the browser has logged."""
    chromium = find_chromium()
    scripts = [f"<script>{code}</script>" for code in (BEFORE, AFTER)]
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"
        for code in (BEFORE, AFTER)
    ]
    page = _allow(page, hashes)
    page = page.replace("<title>", f"{scripts[0]}<title>", 1)
    page = page.replace("</body>", f"{scripts[1]}</body>", 1)
    file = folder / f"page-{width}.html"
    file.write_text(page, encoding="utf-8")
    # A window has at least 500 pixels: a narrow page is a frame in another one.
    outer = folder / f"frame-{width}.html"
    outer.write_text(FRAME.format(width=width, page=file.name), encoding="utf-8")
    done = subprocess.run(
        [
            chromium, *FLAGS, f"--user-data-dir={folder / f'profile-{width}-{dark}'}",
            "--window-size=1400,1000", f"--blink-settings=preferredColorScheme={int(not dark)}",
            outer.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.S)
    assert found, done.stderr[-2000:]
    logged = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(html.unescape(found[1])), logged


def _allow(page, hashes):
    """Add scripts to those that the policy of the page allows."""
    head, policy, rest = page.partition("script-src ")
    assert policy
    return f"{head}{policy}{html.escape(' '.join(hashes))} {rest}"
