"""The hash chain of the audit trail detects every change to sealed rows, and retention keeps it valid."""

from __future__ import annotations

import json
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db.models import F

from icekeeper.kernel.clock import now
from tasks.runtime.jobs import Where
from tenancy.actor import INTERNAL
from tenancy.audit import chain
from tenancy.audit.chain import ChainBroken, ChainHead, delete_old_records, record_hash, seal_records, verify_chain
from tenancy.maintenance import switch
from tenancy.models import AuditChain, AuditRecord
from tests.harness.log_lines import log_lines
from tests.management.audit_chain_fixtures import age, keep, report

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def sealed(count: int) -> list[AuditRecord]:
    for number in range(count):
        report(number)
    assert seal_records(actor=INTERNAL) == count
    return list(AuditRecord.objects.order_by("position"))


def broken(**options: Any) -> str:
    with pytest.raises(ChainBroken) as error:
        verify_chain(**options)
    return str(error.value)


def verify(*arguments: str) -> str:
    out = StringIO()
    call_command("verify_audit", *arguments, stdout=out)
    return out.getvalue()


# --- valid chains ----------------------------------------------------------------------------------------------------


def test_an_empty_chain_is_valid(db: None) -> None:
    assert seal_records(actor=INTERNAL) == 0
    found = verify_chain()
    assert (found.count, found.head, found.unsealed) == (0, ChainHead(0, "0" * 64), 0)
    assert verify() == f"0 rows are valid.\nHead: 0:{'0' * 64}\n"


@pytest.mark.parametrize("batch", [1, 2, 3, 7, 200])
def test_a_chain_is_valid_however_it_was_sealed(db: None, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "CHUNK", 3)
    for number in range(7):
        report(number)
    assert seal_records(actor=INTERNAL, batch=batch) == 7
    report("later")
    assert seal_records(actor=INTERNAL, batch=batch) == 1
    report("not sealed")
    rows = list(AuditRecord.objects.exclude(position=None).order_by("position"))
    assert [(row.position, row.object_id) for row in rows] == [*((n + 1, str(n)) for n in range(7)), (8, "later")]
    assert [row.previous_hash for row in rows] == ["0" * 64, *(row.hash for row in rows[:-1])]
    found = verify_chain(heads=[ChainHead(3, rows[2].hash), ChainHead(8, rows[7].hash), ChainHead(0, "0" * 64)])
    assert (found.count, found.anchor, found.head, found.unsealed) == (8, 0, ChainHead(8, rows[7].hash), 1)
    assert found.unknown_heads == []


def test_an_export_can_be_verified_without_the_server(db: None) -> None:
    """With the commands in the documentation."""
    rows = sealed(3)
    out = StringIO()
    call_command("export_audit", stdout=out, stderr=StringIO())
    previous = "0" * 64
    for row, line in zip(rows, out.getvalue().splitlines(), strict=True):
        reported = json.loads(line)
        assert reported.pop("object-uuid") is None
        claimed, before = reported.pop("hash"), reported.pop("previous-hash")
        text = json.dumps(reported, sort_keys=True, separators=(",", ":"))
        assert (before, claimed) == (previous, sha256(f"{before}\n{text}".encode()).hexdigest())
        previous = claimed
        assert (claimed, reported["position"]) == (row.hash, row.position)


def test_heads_are_recorded_in_the_log(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenancy.audit.chain._head_log._next", 0.0)
    with log_lines("icekeeper.audit") as lines:
        first = sealed(2)[-1]
        reported = [line for line in lines.read() if line["message"] == "audit.sealed"]
        assert [(line["position"], line["hash"]) for line in reported] == [(2, first.hash)]
        sealed(1)
        assert [line for line in lines.read() if line["message"] == "audit.sealed"] == [], "it has just been logged"


# --- broken chains ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"actor": "oidc~carl"}, {"details": "{}"}, {"details": "no JSON"}, {"outcome": "denied"}, {"count": 2},
        {"at": now()}, {"reason": "x"}, {"request_id": "0198e0f4-3f6e-7c31-8c7d-000000000000"}, {"address": "::1"},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_a_row_that_was_changed_is_found(db: None, change: dict[str, Any]) -> None:
    row = sealed(5)[2]
    AuditRecord.objects.filter(pk=row.pk).update(**change)
    assert broken() == f"Row 3 ({row.pk}) is not what was sealed"


def test_a_changed_row_with_a_recomputed_hash_is_found(db: None) -> None:
    rows = sealed(5)
    rows[2].actor = "oidc~carl"
    changed_hash = record_hash(rows[2], rows[2].previous_hash)
    AuditRecord.objects.filter(pk=rows[2].pk).update(actor="oidc~carl", hash=changed_hash)
    assert broken() == f"Row 4 ({rows[3].pk}) does not continue the row before"


@pytest.mark.parametrize(
    ("deleted", "reported"),
    [
        ([1], "Row 1 is missing"), ([3], "Row 3 is missing"), ([2, 3, 4], "Rows 2 to 4 are missing"),
        ([5], "Row 5 is missing"), ([1, 2, 3, 4, 5], "Rows 1 to 5 are missing"),
    ],
)  # fmt: skip
def test_deleted_rows_are_detected(db: None, deleted: list[int], reported: str) -> None:
    sealed(5)
    AuditRecord.objects.filter(position__in=deleted).delete()
    assert broken() == reported


def test_rows_that_were_exchanged_are_found(db: None) -> None:
    rows = sealed(3)
    AuditRecord.objects.filter(position=2).update(position=99)
    AuditRecord.objects.filter(position=3).update(position=2)
    AuditRecord.objects.filter(position=99).update(position=3)
    assert broken() == f"Row 2 ({rows[2].pk}) does not continue the row before"


def test_an_inserted_row_is_detected(db: None) -> None:
    rows = sealed(3)
    forged = AuditRecord(position=4, at=now(), event="x", outcome="allowed", actor="oidc~bob")
    forged.previous_hash = rows[-1].hash
    forged.hash = record_hash(forged, forged.previous_hash)
    forged.save(force_insert=True)
    assert broken() == "Row 4 was inserted after the end of the chain, which is row 3"
    AuditRecord.objects.filter(pk=forged.pk).update(position=-5)
    assert broken() == "Row -5 was inserted before the beginning of the chain, which is row 1"
    AuditRecord.objects.filter(position__gt=1).update(position=F("position") + 10)
    AuditRecord.objects.filter(pk=forged.pk).update(position=2)
    assert broken() == f"Row 2 ({forged.pk}) does not continue the row before"


def test_an_end_that_was_cut_off_is_found(db: None) -> None:
    rows = sealed(5)
    AuditRecord.objects.filter(position__gt=3).delete()
    AuditChain.objects.update(position=3)
    assert broken() == "The chain ends at row 3 with another hash than when that row was sealed"
    AuditChain.objects.update(hash=rows[2].hash)
    verify_chain()
    assert broken(heads=[ChainHead(5, rows[4].hash)]) == "Row 5 is a given head, but the chain ends at row 3"


def test_a_completely_resealed_trail_is_found_by_a_kept_head(db: None) -> None:
    head = sealed(3)[-1]
    AuditRecord.objects.filter(position=2).update(actor="oidc~carl")
    AuditRecord.objects.update(position=None, hash="", previous_hash="")
    AuditChain.objects.update(position=0, hash="0" * 64)
    seal_records(actor=INTERNAL)
    assert verify_chain().count == 3
    assert broken(heads=[ChainHead(3, head.hash)]) == "Row 3 has another hash than the given head"
    with pytest.raises(CommandError, match=r"The audit trail is broken. Row 3 has another hash than the given head"):
        verify("--head", f"3:{head.hash}")


def test_a_chain_without_its_row_is_broken(db: None) -> None:
    sealed(1)
    AuditChain.objects.all().delete()
    assert broken() == "The row with the end of the chain is missing"
    report()
    assert seal_records(actor=INTERNAL) == 0


@pytest.mark.parametrize(
    "head", ["", "3", "3:", f":{'0' * 64}", f"-1:{'0' * 64}", f"3:{'g' * 64}", f"{'9' * 19}:{'0' * 64}"]
)
def test_heads_that_are_none(db: None, head: str) -> None:
    with pytest.raises(CommandError, match="--head takes POSITION:HASH"):
        verify(f"--head={head}")


# --- retention -------------------------------------------------------------------------------------------------------


def test_old_rows_are_deleted_and_the_chain_stays_valid(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(monkeypatch, 30)
    for number in range(10):
        report(number)
    for number in range(7):
        age(40 - number, object_id=str(number))
    rows = sealed_in_order()
    assert delete_old_records(actor=INTERNAL, batch=2) == 7
    reported = [row for row in AuditRecord.objects.order_by("position") if row.event == "audit.records-deleted"]
    assert [(row.position, row.count, row.actor) for row in reported] == [
        (11, 2, "internal"), (12, 2, "internal"), (13, 2, "internal"), (14, 1, "internal")
    ]  # fmt: skip
    newest = rows[6].at.isoformat()
    assert json.loads(reported[-1].details) == {"position": 7, "hash": rows[6].hash, "newest": newest}
    found = verify_chain(heads=[ChainHead(7, rows[6].hash), ChainHead(9, rows[8].hash), ChainHead(3, "f" * 64)])
    assert (found.count, found.anchor, found.head) == (7, 7, ChainHead(14, reported[-1].hash))
    assert found.deleted_until == newest
    assert found.unknown_heads == [ChainHead(3, "f" * 64)]
    assert broken(heads=[ChainHead(7, "f" * 64)]) == "Row 7 has another hash than the given head"
    assert delete_old_records(actor=INTERNAL) == 0
    AuditRecord.objects.filter(position=8).delete()
    assert broken() == "Row 8 is missing"


def sealed_in_order() -> list[AuditRecord]:
    seal_records(actor=INTERNAL)
    return list(AuditRecord.objects.order_by("position"))


def test_a_chain_of_old_rows_only_continues(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(monkeypatch, 30)
    for number in range(3):
        report(number)
    age(31)
    last = sealed_in_order()[-1]
    assert delete_old_records(actor=INTERNAL) == 3
    report("new")
    [reported, new] = sealed_in_order()
    assert (reported.position, reported.previous_hash, reported.event) == (4, last.hash, "audit.records-deleted")
    assert (new.position, new.previous_hash) == (5, reported.hash)
    assert verify_chain().count == 2


def test_recent_and_unsealed_rows_are_kept(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(monkeypatch, 30)
    report("young")
    seal_records(actor=INTERNAL)
    report("old, reported late")
    age(31)
    seal_records(actor=INTERNAL)
    report("old, not sealed")
    age(31)
    assert delete_old_records(actor=INTERNAL) == 0
    assert AuditRecord.objects.count() == 3


def test_a_row_from_the_future_blocks_no_other(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(monkeypatch, 30)
    for number, days in enumerate((31, -9999, 31, -9999, 0)):
        report(number)
        age(days)
        seal_records(actor=INTERNAL)
    assert delete_old_records(actor=INTERNAL) == 3
    assert verify_chain().count == 3


def test_a_beginning_that_was_cut_off_is_found(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = sealed(10)
    cut = rows[7]
    AuditRecord.objects.filter(position__lte=8).delete()
    AuditChain.objects.update(anchor_position=8, anchor_hash=cut.hash)
    assert broken() == "Rows 1 to 8 are missing, and no record of their deletion by retention exists"
    AuditRecord.objects.all().delete()
    AuditChain.objects.update(anchor_position=10, anchor_hash=rows[9].hash)
    assert broken() == "Rows 1 to 10 are missing, and no record of their deletion by retention exists"


def test_rows_lost_beyond_retention_are_found(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(monkeypatch, 30)
    for number in range(3):
        report(number)
    age(31)
    sealed_in_order()
    assert delete_old_records(actor=INTERNAL) == 3
    later = sealed(2)
    assert verify_chain().anchor == 3
    AuditRecord.objects.filter(position=4).delete()
    assert broken() == "Row 4 is missing"
    AuditChain.objects.update(anchor_position=4, anchor_hash=later[0].hash)
    assert broken() == "Rows 1 to 4 are missing, and no record of their deletion by retention exists"


def test_heads_of_deleted_rows_fail_unless_that_is_expected(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(monkeypatch, 30)
    for number in range(3):
        report(number)
    age(31)
    old = sealed_in_order()
    assert delete_old_records(actor=INTERNAL) == 3
    head = f"1:{old[0].hash}"
    with pytest.raises(CommandError, match=r"^Rows of the given heads were deleted"):
        verify("--head", head)
    reported = verify("--head", head, "--allow-deleted")
    assert "Row 1 was deleted: its hash cannot be verified." in reported
    assert (
        f"Rows 1 to 3 were deleted after their retention period, the newest was from {old[-1].at.isoformat()}."
        in reported
    )
    verify("--head", f"3:{old[2].hash}")
    with pytest.raises(CommandError, match="Row 3 has another hash than the given head"):
        verify("--head", f"3:{'f' * 64}", "--allow-deleted")


def test_old_rows_are_deleted_together_once_per_hour(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(monkeypatch, 30)
    report("old")
    age(30 + 0.5 / 24)
    seal_records(actor=INTERNAL)
    report("younger")
    age(30 + 0.1 / 24)
    seal_records(actor=INTERNAL)
    assert delete_old_records(actor=INTERNAL) == 0
    keep(monkeypatch, 30 - 0.6 / 24)
    assert delete_old_records(actor=INTERNAL) == 2
    assert delete_old_records(actor=INTERNAL) == 0
    assert [row.event for row in AuditRecord.objects.all()] == ["audit.records-deleted"]


def test_without_retention_nothing_is_deleted(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(monkeypatch, 0)
    report()
    age(99_999)
    seal_records(actor=INTERNAL)
    assert delete_old_records(actor=INTERNAL) == 0
    assert AuditRecord.objects.count() == 1


def test_the_worker_seals_and_deletes() -> None:
    jobs = {job.run.removeprefix("tenancy.audit."): job.where for job in settings.PERIODIC_JOBS if ".audit." in job.run}
    assert jobs == {
        "collector.write_and_seal": Where.EACH_SERVER_PROCESS,
        "chain.seal_records": Where.ONE_WORKER,
        "chain.delete_old_records": Where.ONE_WORKER,
    }


# --- export by command -----------------------------------------------------------------------------------------------


def export(*arguments: str) -> tuple[list[dict[str, Any]], str]:
    out, reported = StringIO(), StringIO()
    call_command("export_audit", *arguments, stdout=out, stderr=reported)
    return [json.loads(line) for line in out.getvalue().splitlines()], reported.getvalue().strip()


def test_an_export_continues_where_it_ended(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("management.management.commands.export_audit.CHUNK", 2)
    for number in range(5):
        report(number)
    lines, reported = export("--limit", "3")
    assert [line["object-id"] for line in lines] == ["0", "1", "2"]
    head = lines[-1]["hash"]
    assert reported == f"Exported 3 rows. Continue with --after 3. Head: 3:{head}"
    verify("--head", f"3:{head}")
    lines, _ = export("--after", "3")
    assert [line["object-id"] for line in lines][:2] == ["3", "4"]
    assert [(line["event"], line["details"]) for line in lines[2:]] == [("audit.exported", {"after": 0, "rows": 3})]
    assert export("--after", "99") == ([], "Nothing to export.")


def test_an_export_into_a_file_overwrites_none(db: None, tmp_path: Path) -> None:
    report()
    file = tmp_path / "audit.jsonl"
    assert export("--output", str(file))[0] == []
    assert [json.loads(line)["event"] for line in file.read_text().splitlines()] == ["role.created"]
    before = file.read_bytes()
    for path in (file, tmp_path / "none" / "audit.jsonl"):
        with pytest.raises(CommandError, match="cannot be written"):
            export("--output", str(path))
    assert file.read_bytes() == before
    for arguments in (("--after", "-1"), ("--limit", "0")):
        with pytest.raises(CommandError, match="--after takes 0 or more"):
            export(*arguments)


def test_in_maintenance_mode_an_export_seals_nothing(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    sealed(1)
    report("later")
    monkeypatch.setattr(switch, "refresh", lambda: False)
    monkeypatch.setattr(switch, "is_on", True)
    assert [line["object-id"] for line in export()[0]] == ["0"]
    assert AuditRecord.objects.count() == 2
