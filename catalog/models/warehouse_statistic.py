from __future__ import annotations

from django.db import models


class WarehouseStatistic(models.Model):
    """How many tabulars a warehouse had at the end of an hour in which that changed, or had so far in this hour.

    `hour` is when the hour begins. What was dropped and can be restored is not counted.
    """

    warehouse = models.ForeignKey("storage.Warehouse", on_delete=models.CASCADE, db_index=False, related_name="+")
    hour = models.DateTimeField()
    tables = models.IntegerField()
    views = models.IntegerField()
    generic_tables = models.IntegerField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["warehouse", "hour"], name="warehouse_statistic_once_an_hour")]

    def __str__(self) -> str:
        return f"{self.warehouse_id} at {self.hour}"
