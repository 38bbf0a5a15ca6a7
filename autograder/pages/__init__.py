"""What people read: feedback pages, the report, its chart. They read data, never the judge."""
