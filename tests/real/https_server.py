"""A FastMCP server over HTTPS: https_server.py PORT KEY CERTIFICATE."""

import sys

import uvicorn
from fastmcp import FastMCP

port, key, certificate = sys.argv[1:]
server = FastMCP("far")


@server.tool(annotations={"readOnlyHint": True})
def repeat(word: str, times: int) -> str:
    """Gives the word as often as asked."""
    return word * times


uvicorn.run(server.http_app(), host="127.0.0.1", port=int(port), ssl_keyfile=key, ssl_certfile=certificate, log_level="warning")
