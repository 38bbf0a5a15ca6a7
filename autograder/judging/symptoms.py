"""How a finding begins that other cases refute."""

ON_ORDINARY = "On ordinary inputs it answers"
