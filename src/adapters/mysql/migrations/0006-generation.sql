-- breaking: no
-- How often a ledger elsewhere has lost its memory. Epochs begin above it, so that a fence never goes backwards.
create table outlast_generation (
  node varchar(255) not null primary key,
  -- What the ledger showed of its identity when the generation was settled.
  shown varchar(160) not null,
  generation bigint not null,
  changed_at datetime(6) not null,
  constraint outlast_generation_positive check (generation >= 0)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;
