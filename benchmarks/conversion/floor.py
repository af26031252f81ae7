"""The floor: a bare aiohttp webhook that decodes and encodes the bytes of a ConversionReview and does nothing else.

It has no restow code, no limits, no metrics and no errors. Its cost is the minimum of any Python webhook, with the
fastest JSON library. ``python -m benchmarks.conversion.floor --cert FILE --key FILE`` prints the port.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import signal
import socket
import ssl

import msgspec
from aiohttp import web

__all__: list[str] = []

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


async def _answer(request: web.Request) -> web.Response:
    review = _decode(await request.read())
    asked = review["request"]
    wanted = asked["desiredAPIVersion"]
    objects = asked["objects"]
    for obj in objects:
        obj["apiVersion"] = wanted
    response = {"uid": asked["uid"], "convertedObjects": objects, "result": {"status": "Success"}}
    answer = {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}
    return web.Response(body=_encode(answer), content_type="application/json")


async def _serve(listener: socket.socket, context: ssl.SSLContext) -> None:
    app = web.Application(client_max_size=2**30)
    app.router.add_post("/convert", _answer)
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=300)
    await runner.setup()
    await web.SockSite(runner, listener, ssl_context=context).start()
    gc.collect()
    gc.freeze()
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await stopped.wait()
    await runner.cleanup()


def main() -> None:
    """Read the command line, listen, serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cert", required=True)
    parser.add_argument("--key", required=True)
    flags = parser.parse_args()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(flags.cert, flags.key)
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(f"listening on port {listener.getsockname()[1]}", flush=True)
    asyncio.run(_serve(listener, context))


if __name__ == "__main__":
    main()
