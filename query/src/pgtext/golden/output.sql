-- Writes output.tsv: type, binary form in hex, text form, as PostgreSQL itself gives them.
--   psql -X -q -f output.sql -o output.tsv     (PostgreSQL 12 or newer, TimeZone UTC)
-- A type `t@zone` is the text form under that session time zone.
set timezone = 'UTC';
set extra_float_digits = 1;
set bytea_output = 'hex';
set intervalstyle = 'postgres';
set datestyle = 'ISO, MDY';
select setseed(0.25) \g /dev/null

create temp table golden (n serial, type text, hex text, txt text);

insert into golden(type, hex, txt) select 'bool', encode(boolsend(v), 'hex'), v::text from (values (true), (false)) t(v);
update golden set txt = left(txt, 1) where type = 'bool';

insert into golden(type, hex, txt) select 'int2', encode(int2send(v), 'hex'), v::text
from (select floor(random() * 65535 - 32768)::int2 v from generate_series(1, 30) union all values (0::int2), ((-32768)::int2), (32767::int2)) t;
insert into golden(type, hex, txt) select 'int4', encode(int4send(v), 'hex'), v::text
from (select (random() * 4294967295 - 2147483648)::int4 v from generate_series(1, 40)
      union all select ('1' || repeat('0', k))::int4 from generate_series(0, 9) k
      union all values (0), (-2147483648), (2147483647)) t;
insert into golden(type, hex, txt) select 'int8', encode(int8send(v), 'hex'), v::text
from (select ((random() - 0.5) * 1.8e19)::int8 v from generate_series(1, 40)
      union all select ('-1' || repeat('0', k))::int8 from generate_series(0, 18) k
      union all values (0::int8), ((-9223372036854775808)::int8), (9223372036854775807), (9007199254740993)) t;

insert into golden(type, hex, txt) select 'float8', encode(float8send(v), 'hex'), v::text from (
  select (1 + floor(random() * 2::float8 ^ 52) / 2::float8 ^ 52) * 2::float8 ^ floor(random() * 2040 - 1020) * sign(random() - 0.5) v
  from generate_series(1, 500)
  union all select (random() * 1e6)::numeric(20, 3)::float8 from generate_series(1, 200)
  union all select random() * 10::float8 ^ floor(random() * 40 - 20) from generate_series(1, 200)
  union all select 2::float8 ^ e from generate_series(-1022, 1023, 11) e
  union all select 2::float8 ^ e from generate_series(-80, 130) e
  union all select (d || 'e' || k)::float8 from generate_series(1, 99, 7) d, generate_series(12, 28) k
  union all select (d || 'e' || k)::float8 from generate_series(1, 9, 4) d, generate_series(-8, 2) k
  union all select ('4.94065645841247e-' || k)::float8 from generate_series(300, 324) k
  union all values (0::float8), ('-0'), ('NaN'), ('Infinity'), ('-Infinity'), ('1.7976931348623157e308'),
    ('2.2250738585072014e-308'), ('2.225073858507201e-308'), ('1e23'), ('9007199254740993'), ('0.1'), ('123456789012345680'), ('1e15'), ('999999999999999'), ('0.0001'), ('0.00001')
) t;
insert into golden(type, hex, txt) select 'float4', encode(float4send(v), 'hex'), v::text from (
  select ((1 + floor(random() * 2::float8 ^ 23) / 2::float8 ^ 23) * 2::float8 ^ floor(random() * 250 - 125) * sign(random() - 0.5))::float4 v
  from generate_series(1, 400)
  union all select (2::float8 ^ e)::float4 from generate_series(-126, 127) e
  union all select (d || 'e' || k)::float4 from generate_series(1, 99, 7) d, generate_series(2, 14) k
  union all select ('1.4e-' || k)::float4 from generate_series(30, 45) k
  union all values (0::float4), ('-0'), ('NaN'), ('Infinity'), ('-Infinity'), ('3.4028235e38'), ('1.1754944e-38'), ('16777217'), ('0.1'), ('1000000'), ('999999')
) t;

insert into golden(type, hex, txt) select 'numeric', encode(numeric_send(v), 'hex'), v::text from (
  select round((random() - 0.5)::numeric * (10::numeric ^ floor(random() * 18)::int) * 12345.6789, floor(random() * 12)::int) v from generate_series(1, 400)
  union all select (case when k % 3 = 0 then '-' else '' end || '1' || repeat('0', k) || '.' || repeat('0', s) || '1')::numeric
            from generate_series(0, 18, 3) k, generate_series(0, 14, 2) s
  union all values (0::numeric), (0.00), (0.000000001), (-0.5), (99999999999999999999999999999999999999),
    (-99999999999999999999999999999.999999999), (10000), (9999), (100000000), (0.0001), (0.00010), (1e20)
) t;

insert into golden(type, hex, txt) select 'date', encode(date_send(v), 'hex'), v::text from (
  select date '2000-01-01' + floor((random() - 0.5) * 60000)::int v from generate_series(1, 150)
  union all select date '2000-01-01' + floor((random() - 0.3) * 2400000)::int from generate_series(1, 150)
  union all values (date '1970-01-01'), ('1969-12-31'), ('2000-02-29'), ('1900-02-28'), ('0001-01-01'), ('0001-12-31 BC'), ('0001-01-01 BC'), ('0044-03-15 BC'),
    ('4713-01-01 BC'), ('9999-12-31'), ('10000-01-01'), ('294246-12-31'), ('5874897-12-31'), ('0999-07-08')
) t where v >= '4713-01-01 BC';

insert into golden(type, hex, txt) select 'time', encode(time_send(v), 'hex'), v::text from (
  select time '00:00' + random() * interval '24 hours' v from generate_series(1, 60)
  union all select ('12:34:56.' || k)::time from generate_series(1, 999, 77) k
  union all values (time '00:00:00'), ('23:59:59.999999'), ('24:00:00'), ('04:05'), ('04:05:06.5')
) t;

create temp table instants as
  select timestamp '2000-01-01' + (random() - 0.5) * interval '100 years' v from generate_series(1, 150)
  union all select date_trunc('milliseconds', timestamp '2000-01-01' + (random() - 0.5) * interval '60 years') from generate_series(1, 60)
  union all select date_trunc('minute', timestamp '2000-01-01' + (random() - 0.25) * interval '8000 years') from generate_series(1, 120)
  union all select timestamp '2024-03-10 00:30' + k * interval '1 hour' from generate_series(0, 8) k
  union all select timestamp '2024-11-03 00:30' + k * interval '1 hour' from generate_series(0, 8) k
  union all values (timestamp '1970-01-01'), ('1969-12-31 23:59:59.999999'), ('0001-01-01 00:00:00'), ('0001-12-31 23:59:59.5 BC'), ('4713-01-01 00:00:00 BC'),
    ('294246-12-31 23:59:59.999999'), ('10000-01-01 00:00:00.000001'), ('2024-01-02 03:04:05.12'), ('1883-11-18 12:00:00'), ('1850-06-01 12:00:00');
insert into golden(type, hex, txt) select 'timestamp', encode(timestamp_send(v), 'hex'), v::text from instants;
insert into golden(type, hex, txt) select 'timestamptz', encode(timestamptz_send(v at time zone 'UTC'), 'hex'), (v at time zone 'UTC')::text from instants;

create function pg_temp.in_zone(zone text) returns void language plpgsql as $$
begin
  perform set_config('timezone', zone, false);
  insert into golden(type, hex, txt)
  select 'timestamptz@' || zone, encode(timestamptz_send(v at time zone 'UTC'), 'hex'), (v at time zone 'UTC')::text
  from instants where v between '1890-01-01' and '2037-01-01';
end $$;
select pg_temp.in_zone('America/New_York') \g /dev/null
select pg_temp.in_zone('Asia/Kolkata') \g /dev/null
set timezone = 'UTC';

insert into golden(type, hex, txt) select 'interval', encode(interval_send(v), 'hex'), v::text from (
  select make_interval(months => floor((random() - 0.5) * 60)::int, days => floor((random() - 0.5) * 80)::int, secs => ((random() - 0.5) * 200000)::numeric(12, 3)::float8) v
  from generate_series(1, 200)
  union all select make_interval(months => m, days => d, secs => s) from generate_series(-13, 13, 13) m, generate_series(-1, 1) d, (values (-1.5), (0), (0.000001), (3600), (-59)) t(s)
  union all values (interval '1 day 01:00:00'), ('1 year 2 mons 3 days 04:05:06.5'), ('-1 year'), ('1 mon -1 day'), ('-00:00:00.000001'), ('1000000 hours'), ('178000000 years')
) t;

insert into golden(type, hex, txt) select 'bytea', encode(v, 'hex'), v::text
from (values (''::bytea), ('\x00'), ('\xdeadbeef'), ('\x0a5c27'), ('\xff00ff')) t(v);

create temp table words(w text);
insert into words values ('plain'), (''), ('NULL'), ('null'), ('Nullable'), ('a b'), (' lead'), ('trail '), ('a,b'), ('a;b'), ('{x}'), ('q"q'), ('b\s'), (E'tab\tx'), (E'line\nx'), ('''q'''), ('ünï'), (E'\u00a0'), ('(p)'), (null);
insert into golden(type, hex, txt) select 'text', encode(textsend(w), 'hex'), w from words where w is not null;
insert into golden(type, hex, txt) select '_text', encode(array_send(v), 'hex'), v::text from (
  select array[a.w, b.w] v from words a, words b where a.w is not null and random() < 0.3
  union all values (array[]::text[]), (array[null]::text[]), (array[array['a', 'b c'], array[null, '']])
) t;
insert into golden(type, hex, txt) select '_int4', encode(array_send(v), 'hex'), v::text
from (values (array[]::int4[]), (array[1, 2, null]), (array[-2147483648]), (array[[1, 2], [3, 4]])) t(v);
insert into golden(type, hex, txt) select '_float8', encode(array_send(v), 'hex'), v::text
from (values (array[1, 0.1, 1e20, 'NaN']::float8[])) t(v);
insert into golden(type, hex, txt) select '_numeric', encode(array_send(v), 'hex'), v::text from (values (array[1.50, null, -2.25]::numeric[])) t(v);
insert into golden(type, hex, txt) select '_bool', encode(array_send(v), 'hex'), v::text from (values (array[true, false, null])) t(v);
insert into golden(type, hex, txt) select '_timestamp', encode(array_send(v), 'hex'), v::text from (values (array['2024-01-02 03:04:05', null]::timestamp[])) t(v);
insert into golden(type, hex, txt) select '_date', encode(array_send(v), 'hex'), v::text from (values (array['2024-01-02', '0044-03-15 BC']::date[])) t(v);
insert into golden(type, hex, txt) select '_bytea', encode(array_send(v), 'hex'), v::text from (values (array['\x00ff', '\x']::bytea[])) t(v);
insert into golden(type, hex, txt) select '_interval', encode(array_send(v), 'hex'), v::text from (values (array['1 day', '01:00']::interval[])) t(v);

copy (select distinct on (type, hex) type, hex, txt from golden order by type, hex) to stdout;
