# pyoxigraph behind HTTP: POST /update, GET / (all quads as N-Quads). Prints its port.
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from pyoxigraph import RdfFormat, Store

store, lock = Store(), Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        with lock:
            self.answer(200, store.dump(format=RdfFormat.N_QUADS))

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        answer = [204]
        try:
            with lock:
                store.update(body)
        except Exception as error:
            answer = [400, str(error).encode()]
        try:
            self.answer(*answer)
        except BrokenPipeError:  # the client has died
            self.close_connection = True

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
