"""Messages to and from ars-host as bytes: bridge/PROTOCOL.md in Python.

Pure functions. The layouts come from the C header. A decoder checks every field that the peer filled in and raises
ProtocolError, which says which one; what it returns needs no further checks.
"""

from ars.wire.control import (
    Done,
    Hello,
    choose_version,
    decode_bare,
    decode_done,
    decode_error,
    decode_hello,
    decode_welcome,
    encode_cancel,
    encode_error,
    encode_hello,
    encode_quit,
    encode_welcome,
)
from ars.wire.frames import Header, decode_header
from ars.wire.run import Listed, RunConfig, Wanted, decode_run, encode_run
from ars.wire.sites import SiteTable, decode_sites, encode_sites
from ars.wire.steps import (
    PRIOR,
    Replies,
    StepBatch,
    concatenate_steps,
    decode_replies,
    decode_steps,
    encode_probe,
    encode_replies,
    given,
)
from ars.wire.traces import decode_traces

__all__ = [
    "PRIOR",
    "Done",
    "Header",
    "Hello",
    "Listed",
    "Replies",
    "RunConfig",
    "SiteTable",
    "StepBatch",
    "Wanted",
    "choose_version",
    "concatenate_steps",
    "decode_bare",
    "decode_done",
    "decode_error",
    "decode_header",
    "decode_hello",
    "decode_replies",
    "decode_run",
    "decode_sites",
    "decode_steps",
    "decode_traces",
    "decode_welcome",
    "encode_cancel",
    "encode_error",
    "encode_hello",
    "encode_probe",
    "encode_quit",
    "encode_replies",
    "encode_run",
    "encode_sites",
    "encode_welcome",
    "given",
]
