"""How the commands are run: each is a process of its own, with its exit code and its output.

Python and the libraries take longer to start than most commands take to run. So one process
imports them once, and forks for each command; the child goes on as `gapmf` would. Where a process
cannot fork, and for what must be seen from the outside, `gapmf` itself is started.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FIT = ("-k", 2, "--tol", 0.1, "-q")  # a second at most, of little files
GAPMF = str(Path(sys.executable).with_name("gapmf"))

SERVER = """
import contextlib, gc, json, os, signal, sys, warnings
import rich.progress
from gapmf import GammaPoissonMF
import gapmf.cli.predict, gapmf.cli.fit_command, gapmf.cli.inspect, gapmf.cli.data_commands
import gapmf.cli.rank_commands, gapmf.cli.check_commands

# What typer imports when it is first used, and the kernels of most commands.
with contextlib.suppress(FileNotFoundError):
    gapmf.cli.app(["info", "no such file"], standalone_mode=False)
with warnings.catch_warnings(action="ignore"):
    est = GammaPoissonMF(2, max_iter=2, random_state=0).fit([[1, 2], [3, 0], [150, 4]])
    est.transform([[1, 2]]), est.score([[1, 2], [150, 4]])
gc.freeze()
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if not child:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
signal.alarm(300)  # a command that hangs fails its test
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
for number, name in ((1, "out"), (2, "err")):
    os.dup2(os.open(os.path.join(asked["folder"], name), os.O_WRONLY | os.O_CREAT), number)
os.environ.update(asked["env"])
os.chdir(asked["cwd"])
sys.argv = ["gapmf", *asked["args"]]
try:
    gapmf.cli.run()
except SystemExit as end:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(end.code or 0)  # taking everything down takes as long as a command
"""


def gapmf(*args, code=0, **env):
    """Run a command, which must end with this code; if that is an error's, with one line of it."""
    run = _forked if hasattr(os, "fork") else _started
    done = run([str(arg) for arg in args], env)
    assert code is None or done.returncode == code, done.stderr
    if code:
        assert done.stdout == ""
        assert done.stderr.startswith("gapmf: ")
        assert done.stderr.endswith("\n")
        assert done.stderr.count("\n") == 1, done.stderr
        assert "Traceback" not in done.stderr
    return done


@contextlib.contextmanager
def started_fit(checkpoint, args, **options):
    """Start a fit; it has begun to work, since it has written its first checkpoint.

    What runs in the background of a shell script ignores Ctrl-C, and so do its children. This one
    does not, however the tests are run.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    command = [GAPMF, *map(str, args), "--checkpoint", str(checkpoint)]
    process = subprocess.Popen(command, **options)
    signal.signal(signal.SIGINT, before)
    try:
        deadline = time.monotonic() + 120
        while not checkpoint.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert process.poll() is None
        yield process
    finally:
        process.kill()
        process.wait()


def _started(args, env):
    return subprocess.run(
        [GAPMF, *args], capture_output=True, text=True, timeout=300, check=False,
        env=os.environ | env,
    )  # fmt: skip


def _forked(args, env):
    server = _server()
    with tempfile.TemporaryDirectory() as folder:
        asked = {"args": args, "env": env, "cwd": os.getcwd(), "folder": folder}
        server.stdin.write(json.dumps(asked) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        out, err = (Path(folder, name).read_text(encoding="utf-8") for name in ("out", "err"))
    return subprocess.CompletedProcess(args, code, out, err)


@functools.cache
def _server():
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def stop():
        server.stdin.close()
        server.wait(timeout=60)
        server.stdout.close()

    atexit.register(stop)
    return server
