"""tests/venv.py where the packages cannot be had: what it says is the cause, and not what pip says last."""

import contextlib
import http.server
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import zipfile

import tidy

OTHERS = ("PYTHONPATH", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")  # the last two count before PIP_CERT
CAUGHT = "name the right authority, PIP_CERT=FILE"


@contextlib.contextmanager
def secure(top, handler, **members):
    """The address of a package index with a certificate, top/certificate.pem, that nobody vouches for."""
    key, certificate = top / "key.pem", top / "certificate.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = http.server.HTTPServer(("127.0.0.1", 0), handler)
    vars(server).update(members)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # pip goes away in the middle
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"https://localhost:{server.server_port}/simple"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def make(top, index, **variables):
    """An environment with one package of that index, or why there is none."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PIP_") and name not in OTHERS}
    env |= {"PIP_INDEX_URL": index, "PIP_CONFIG_FILE": os.devnull, "NO_PROXY": "*", "no_proxy": "*", **variables}
    requirements = top / "requirements.txt"
    requirements.write_text("planted-package\n")
    subprocess.run([sys.executable, tidy.ROOT / "tests" / "venv.py", top / "venv", requirements], env=env, check=True, capture_output=True)


def why_not(top, index):
    """What stands there instead of an environment."""
    make(top, index)
    return (top / "venv" / "why-not").read_text()


def says(text, *words):
    return [f"not in '{text.strip()}': {word}" for word in words if word not in text]


def no_certificate():
    with tempfile.TemporaryDirectory() as folder, secure(pathlib.Path(folder), http.server.SimpleHTTPRequestHandler) as index:
        return says(why_not(pathlib.Path(folder), index), "venv cannot be made", "certificate of the package index is not trusted (self", CAUGHT)


def no_server():
    with tempfile.TemporaryDirectory() as folder, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and nobody listens
        return says(why_not(pathlib.Path(folder), f"http://127.0.0.1:{closed.getsockname()[1]}/simple"), "package index is not reached: Failed", "Connection refused\n")


class Index(http.server.BaseHTTPRequestHandler):
    """Of one package, which may be cached."""

    def do_GET(self):
        wheel = self.server.wheel
        body = wheel.read_bytes() if self.path.endswith(wheel.name) else f'<a href="/{wheel.name}">{wheel.name}</a>'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream" if self.path.endswith(wheel.name) else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "max-age=3600")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def a_wheel(top):
    wheel, info = top / "planted_package-1-py3-none-any.whl", "planted_package-1.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: planted-package\nVersion: 1\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return wheel


def nothing_at_home():
    """An environment is made, and pip keeps nothing of it in the user's cache."""
    with tempfile.TemporaryDirectory() as folder:
        top = pathlib.Path(folder)
        cache = top / "cache"
        cache.mkdir()
        with secure(top, Index, wheel=a_wheel(top)) as index:
            make(top, index, XDG_CACHE_HOME=str(cache), PIP_CERT=str(top / "certificate.pem"))
        left = [str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file()]
        made = (top / "venv" / "made-from").exists()
        return [f"left in the cache: {path}" for path in left[:3]] + ([] if made else [(top / "venv" / "why-not").read_text()])


if not shutil.which("openssl"):
    tidy.skip("there is no openssl, which would make a certificate")
tidy.report([("a certificate that is not trusted is the cause", no_certificate()), ("a server that is not reached is the cause", no_server()),
             ("nothing is left in the cache of the user", nothing_at_home())])
