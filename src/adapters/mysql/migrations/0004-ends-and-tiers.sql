-- breaking: no
-- Brokers and ledgers that have served beside this database, by their addresses: a store that is not configured any more may
-- still have tasks.
create table outlast_tier (
  role varchar(16) not null,
  -- SHA-256 of `store`, as hexadecimal text: an address may be longer than what an index takes.
  store_hash varchar(64) not null,
  store text not null,
  last_at datetime(6) not null,
  primary key (role, store_hash)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;
