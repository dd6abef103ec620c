"""Settings of the place where the credentials of warehouses are kept."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, SecretStr

from icekeeper.setting_values import read_list

MOST_KEYS = 16
"""Old keys at once: each costs some 50 ms when a process begins."""

Secret = Annotated[SecretStr, Field(min_length=1)]
KeyList = Annotated[list[Secret], BeforeValidator(read_list), Field(max_length=MOST_KEYS)]
