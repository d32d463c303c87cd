-- breaking: no
-- Progress too large for the ledger, in parts. The ledger refers to it by epoch, sequence, size and digest, and only when
-- it is all there: what nobody refers to is deleted by a resurrector.
create table outlast_checkpoint (
  task_id varchar(160) not null,
  epoch bigint not null,
  seq bigint not null,
  part int not null,
  data longblob not null,
  created_at datetime(6) not null,
  primary key (task_id, epoch, seq, part)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;
