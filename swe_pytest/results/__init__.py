"""Results: records, the ledger, totals, and how they are told."""
