from __future__ import annotations

from typing import Any

from catalog.services.metrics_reports import delete_old_reports
from management.endpoint_statistics import delete_old_statistics
from management.management.operator_command import OperatorCommand, require_no_maintenance
from tenancy.actor import INTERNAL


class Command(OperatorCommand):
    help = (
        "Delete metrics reports, their daily sums and endpoint statistics that are older than "
        "ICEKEEPER__METRICS_REPORT_RETENTION, ICEKEEPER__METRICS_DAY_RETENTION and "
        "ICEKEEPER__ENDPOINT_STAT_RETENTION. For deployments without a worker, which does this every six hours. May be "
        "run at any time and concurrently; fails in maintenance mode."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        require_no_maintenance("nothing is deleted")
        reports, days = delete_old_reports(actor=INTERNAL)
        statistics = delete_old_statistics(actor=INTERNAL)
        self.stdout.write(
            f"Deleted {reports} metrics reports and {days} daily sums, and {statistics} endpoint statistics."
        )
