"""The files of a directory over HTTP on loopback, for the server that fetches."""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer


class Pages:
    """Serves from when it is made until it is closed."""

    def __init__(self, directory):
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=str(directory)))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def url(self, name):
        """The address of one file."""
        host, port = self._server.server_address
        return f"http://{host}:{port}/{name}"

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_words):
        """Requests are not told to the terminal."""
