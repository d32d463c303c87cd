-- breaking: no
-- How often a ledger elsewhere has lost its memory. Epochs begin above it, so that a fence never goes backwards.
create table outlast_generation (
  node text primary key,
  -- What the ledger showed of its identity when the generation was settled.
  shown text not null,
  generation bigint not null,
  changed_at timestamptz not null default clock_timestamp(),
  constraint outlast_generation_positive check (generation >= 0)
);
