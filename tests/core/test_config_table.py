"""Reading a plugin's configuration table."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator

from proofstream import ConfigError, read_table


class Meter(BaseModel):
    model_config = ConfigDict(extra="forbid")

    volts: float = Field(default=1.0, gt=0)
    name: str = "meter"

    @field_validator("name")
    @classmethod
    def _is_short(cls, value: str) -> str:
        if len(value) > 8:
            raise ValueError("Names have at most 8 characters")
        return value


def test_a_valid_table_becomes_the_model() -> None:
    assert read_table(Meter, {"volts": "2.5"}, name="meter") == Meter(volts=2.5)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"watts": 1}, "meter.watts: there is no such key; known are name, volts"),
        ({"volts": 0}, "meter.volts: input should be greater than 0"),
        ({"name": "voltmeter"}, "meter.name: names have at most 8 characters"),
    ],
)
def test_a_mistake_is_one_line(table: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_table(Meter, table, name="meter")
    assert str(caught.value) == message
