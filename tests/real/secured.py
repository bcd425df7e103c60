"""An upstream over HTTPS: a real server with a certificate that the system trusts, or does not."""

import datetime
import ipaddress
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import client
from gateway import Gateway
from table import Failure, case, check, equal

START_SECONDS = 30


@case("over HTTPS: calls and saves with a certificate that the system trusts, none with another")
def over_https(stage):
    directory = stage.directory / "https"
    directory.mkdir()
    authority, key, chain = make_certificates(directory)
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-B", str(Path(__file__).with_name("https_server.py")), str(port), str(key), str(chain)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=(directory / "server.log").open("wb"),
    )
    try:
        wait_for(port, server)
        servers = {"far": f"https://localhost:{port}/mcp"}
        trusting = Gateway(stage.home("https", servers), {"SSL_CERT_FILE": str(authority)})
        try:
            target = stage.target(".txt")
            ask = {"name": "far:repeat", "args": {"word": "far", "times": 100_000}}
            small = client.call(trusting.url, "call_tool_read", ask | {"args": {"word": "near", "times": 2}})
            equal(client.text_of(small), "nearnear", "the small answer")
            reply = client.call(trusting.url, "call_tool_read", ask | {"save_to_file": str(target)})
            check(not reply.is_error, client.text_of(reply)[:300])
            equal(target.read_text(encoding="utf-8"), "far" * 100_000, "the saved answer")
        finally:
            trusting.stop(signal.SIGTERM)
        doubting = Gateway(stage.home("https-doubt", servers))
        try:
            refused = client.call(doubting.url, "call_tool_read", ask)
            check(refused.is_error and "certificate" in client.text_of(refused), client.text_of(refused)[:300])
        finally:
            doubting.stop(signal.SIGTERM)
    finally:
        server.terminate()
        server.wait(START_SECONDS)


def make_certificates(directory):
    """An authority of our own, and a key and certificate for localhost that it vouches for."""
    root_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority of a test")])
    root = certificate(root_name, root_name, root_key.public_key(), root_key, x509.BasicConstraints(True, None))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    leaf = certificate(name, root_name, key.public_key(), root_key, names)
    pem = serialization.Encoding.PEM
    files = [directory / "authority.pem", directory / "key.pem", directory / "chain.pem"]
    texts = [
        root.public_bytes(pem),
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        leaf.public_bytes(pem),
    ]
    for file, text in zip(files, texts, strict=True):
        file.write_bytes(text)
    return files


def certificate(subject, issuer, public, signer, extension):
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    builder = builder.serial_number(x509.random_serial_number()).add_extension(extension, critical=False)
    builder = builder.not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(days=1))
    return builder.sign(signer, hashes.SHA256())


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def wait_for(port, server):
    limit = time.monotonic() + START_SECONDS
    while time.monotonic() < limit and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise Failure(f"the server over HTTPS did not start (exit code {server.poll()})")
