"""Rules that several causes cover: what their symptoms are, said once."""

from __future__ import annotations

QUEUES = frozenset({"prefill_queue", "kv_pinned", "kv_lease_expired", "kv_transfer_setup", "decode_recompute"})
"""What piles up in front of decode and of the hand-over when they are held up."""

FETCH = QUEUES | {"decode_starved"}
"""The same, with decode waiting for its KV: what a hand-over that is held up looks like from both sides."""

WORK = frozenset({"prefill_compute", "prefill_queue", "decode_admission", "decode_kv_capacity", "decode_hbm_bandwidth"})
"""What too much work for an instance, or an instance too slow for its work, looks like on it."""
