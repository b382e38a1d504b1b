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

import tidy

CAUGHT = "name the right authority, PIP_CERT=FILE"


@contextlib.contextmanager
def untrusted(top):
    """The address of a package index with a certificate that nobody vouches for."""
    key, certificate = top / "key.pem", top / "certificate.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
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


def why_not(top, index):
    """What stands there instead of an environment."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PIP_") and name != "PYTHONPATH"}
    env |= {"PIP_INDEX_URL": index, "PIP_CONFIG_FILE": os.devnull, "NO_PROXY": "*", "no_proxy": "*"}
    requirements = top / "requirements.txt"
    requirements.write_text("planted-package\n")
    subprocess.run([sys.executable, tidy.ROOT / "tests" / "venv.py", top / "venv", requirements], env=env, check=True, capture_output=True)
    return (top / "venv" / "why-not").read_text()


def says(text, *words):
    return [f"not in '{text.strip()}': {word}" for word in words if word not in text]


def no_certificate():
    with tempfile.TemporaryDirectory() as folder, untrusted(pathlib.Path(folder)) as index:
        return says(why_not(pathlib.Path(folder), index), "venv cannot be made", "certificate of the package index is not trusted (self", CAUGHT)


def no_server():
    with tempfile.TemporaryDirectory() as folder, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and nobody listens
        return says(why_not(pathlib.Path(folder), f"http://127.0.0.1:{closed.getsockname()[1]}/simple"), "package index is not reached: Failed", "Connection refused\n")


if not shutil.which("openssl"):
    tidy.skip("there is no openssl, which would make a certificate")
tidy.report([("a certificate that is not trusted is the cause", no_certificate()), ("a server that is not reached is the cause", no_server())])
