"""What holds for all tests."""

from __future__ import annotations

import signal

# A shell without job control starts what it puts in the background with SIGINT ignored, nohup does so with SIGHUP, and
# children inherit it: a test that ends a process by such a signal would then wait for ever.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)
