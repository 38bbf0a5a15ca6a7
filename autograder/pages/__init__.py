"""Makes what people read: feedback pages, the report and its charts. The pages use data and never call the judge."""
