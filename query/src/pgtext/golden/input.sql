-- Writes input.tsv: type, text given, what PostgreSQL makes of it: `=` and its text, or `!`, SQLSTATE and message.
--   psql -X -q -f input.sql -o input.tsv     (PostgreSQL 12 or newer)
set timezone = 'UTC';
set datestyle = 'ISO, MDY';
create function pg_temp.attempt(type text, input text) returns text language plpgsql as $$
declare result text;
begin
  execute format('select (%L::%s)::text', input, type) into result;
  return '=' || result;
exception when others then return '!' || sqlstate || ' ' || sqlerrm;
end $$;
create temp table attempts (n serial, type text, input text);

insert into attempts(type, input) select t, i from unnest(array['smallint', 'integer', 'bigint']) t, unnest(array[
  '0', '1', '-1', '+7', ' 42 ', E'\t-5\n', '00012', '-0', '', ' ', '-', '+', '1.5', '1e3', 'abc', '12abc', '1 2', '--1', '32767', '32768', '-32768', '-32769',
  '2147483647', '2147483648', '-2147483648', '-2147483649', '9223372036854775807', '9223372036854775808', '-9223372036854775808',
  '-9223372036854775809', '99999999999999999999999', 'NaN', 'true']) i;
insert into attempts(type, input) select 'boolean', i from unnest(array[
  't', 'f', 'true', 'false', 'TRUE', 'False', 'tru', 'tr', 'fal', 'y', 'n', 'yes', 'no', 'ye', 'on', 'off', 'of', 'o', '1', '0', '01', '2', ' true ', E'\tno\n', '', ' ', 'truee', 'nope']) i;
insert into attempts(type, input) select t, i from unnest(array['real', 'double precision']) t, unnest(array[
  '0', '-0', '1.5', ' 2.5 ', '.5', '5.', '.', '-', '', ' ', '1e3', '1E-3', '1e+3', '1e', 'e1', '+1', 'NaN', 'nan', 'NAN', 'Infinity', '-Infinity', '+Infinity', 'infinity', 'inf',
  '-inf', '+inf', 'INF', 'infin', '-NaN', '1e400', '-1e400', '1e-400', '1e39', '1e-46', '1e-50', '1e38', '3.4028236e38', 'abc', '1.5x', '1,5', '1 2', '123456789012345678901234567890',
  '0.1', '0.30000000000000004', '16777217', '9007199254740993', '1e23', '2.2250738585072011e-308', '4.9e-324', '1_000']) i where not (i = '1_000');
insert into attempts(type, input) select t, i from unnest(array['numeric(10,2)', 'numeric(5,0)', 'numeric(38,9)']) t, unnest(array[
  '0', '-0', '1.5', '1.005', '1.015', '-1.005', '0.004999', '0.005', '-0.005', ' 12.34 ', '.5', '5.', '.', '-', '', '1e3', '1E2', '15e-1', '1.2345e2', '1e', 'abc', '1.2.3', '12a', '99999', '99999.5',
  '99999.4', '99999999.99', '99999999.994', '99999999.995', '100000000', '-100000000', '1e50', '1e-50', '00001.50', '+3', '12345678901234567890123456789.123456789',
  '99999999999999999999999999999.9999999995', '1 2']) i;
insert into attempts(type, input) select 'date', i from unnest(array[
  '2024-01-02', ' 2024-01-02 ', '2024-1-2', '20240102', '2024-02-29', '2023-02-29', '2024-13-01', '2024-00-10', '2024-01-00', '2024-01-32', '0001-01-01', '0001-01-01 BC', '0044-03-15 BC', '0000-01-01', '10000-01-01',
  '2024-01-02 03:04:05', '2024-01-02T03:04:05', '2024-01-02 03:04:05+02', '2024/01/02', '01/02/2024', '1/2/2024', '13/02/2024', 'Jan 2, 2024', 'January 2, 2024', '2 Jan 2024', '2-Jan-2024', '2024-Jan-02', 'epoch', 'abc', '', ' ', '2024-01', '2024', '5874897-12-31',
  '5874898-01-01', '4713-11-24 BC', '2024-01-02 AD', '2024-01-02x', '2024-01-02 25:00:00', '2024.01.02', '1999-01-08']) i;
insert into attempts(type, input) select t, i from unnest(array['timestamp', 'timestamptz']) t, unnest(array[
  '2024-01-02 03:04:05', '2024-01-02 03:04:05.123456', '2024-01-02 03:04:05.1', '2024-01-02T03:04:05Z', '2024-01-02T03:04:05.5z', '2024-01-02 03:04:05.123456+02', '2024-01-02 03:04:05+02:30', '2024-01-02 03:04:05+0230', '2024-01-02 03:04:05-08',
  '2024-01-02 03:04:05 +02', '2024-01-02 03:04:05 UTC', '2024-01-02 03:04:05 GMT', '2024-01-02 03:04:05 America/New_York', '2024-07-02 03:04:05 America/New_York', '2024-03-10 02:30:00 America/New_York', '2024-11-03 01:30:00 America/New_York',
  '2024-01-02 03:04', '2024-01-02', ' 2024-01-02  03:04:05 ', '20240102 030405', '20240102T030405', '2024-01-02 24:00:00', '2024-01-02 24:00:01', '2024-01-02 23:59:60', '2024-01-02 23:60:00', '2024-01-02 25:00:00', '2024-01-02 03:04:05.1234565',
  '2024-01-02 03:04:05.9999995', '2024-01-02 03:04:05.9999999', '2024-02-30 00:00:00', '2024-13-01 00:00:00', '0044-03-15 12:00:00 BC', '2024-01-02 03:04:05+02 BC', '10000-01-01 00:00:00', '294246-12-31 23:59:59', '294277-01-01 00:00:00', '4714-11-24 00:00:00 BC', '4714-11-23 00:00:00 BC',
  'abc', '', '2024-01-02 abc', '2024-01-02 03:04:05 Nowhere/Zone', '2024-01-02 03:04:05+25', '2024-01-02 03:04:05+15:59:59', '2024-01-02 3:4:5', '2024-01-02 03:04:05 PM', '2024-01-02 12:00:00 AM', '2024-01-02 13:00 PM', 'epoch', '1/2/2024 3:04', 'Jan 2 2024 03:04:05', 'Tue Jan 2 03:04:05 2024', '2024-01-02 03:04:05,5', '2024-01-02 03:04:05.', '03:04:05',
  '2024-01-02 03:04:05-00', '2024-01-02 03:04:05+2', '2024-01-02 03:04:05 EST', '2024-01-02 03:04:05 PST', '1969-12-31 23:59:59.999999', '2024-1-2 3:04']) i;
insert into attempts(type, input) select 'time', i from unnest(array[
  '04:05:06', '04:05:06.789', '04:05', '040506', '04:05 PM', '12:05 AM', '12:05 pm', '24:00:00', '24:00:01', '25:00', '23:59:60', '04:60', '04:05:06.1234567', 'abc', '', ' 04:05:06 ', '04:05:06+02', '04:05:06Z', '04:05:06 UTC', '4:5:6', '0405', '2024-01-02 03:04:05', '23:59:59.9999999', 'T04:05:06']) i;
insert into attempts(type, input) select 'interval', i from unnest(array[
  '1 day', '1 days', '-1 day', '1 day 02:03:04', '1 day -02:03:04', '-1 day 02:03:04', '02:03:04', '-02:03:04', '02:03', '1:2', '02:03:04.5', '1 year 2 mons 3 days 04:05:06', '1 year 2 months', '1 yr', '2 y', '3 weeks', '1.5 days', '1.5 months', '1.5 years', '1.5 weeks', '0.5 hours', '90 minutes',
  '1 hour 30 minutes', '1h', '1h 30m', '5m', '10s', '10 sec', '10 secs', '1.5 seconds', '100 ms', '100 milliseconds', '5 us', '1 microsecond', '1 decade', '1 century', '2 centuries', '1 millennium', '1 day ago', '@ 1 day 2 hours ago', '1 year -1 day', '1-2', '-1-2', '+1-2', '1-2 3 4:05:06', 'P1Y2M3DT4H5M6S', 'P1W', 'PT1.5S', 'PT36H', 'P-1Y', 'P1Y',
  'PT-1.5H', 'P0.5Y', 'P0001-02-03T04:05:06', '5', '1.5', '1', '', ' ', 'abc', '1 abc', 'day', '1 day 1 day', '1 day 2', '2 3', '100000000000 years', '2147483647 days', '2147483648 days', '1000 hours', '1 mon', '1 month 1 mon', '  3   days  ', '3days', '1day2hours', '-1.5 days', '1 day 12', '1 fortnight', '00:00:60', '00:60:00', '25:00:00', '1 2:03', '1 2:03:04.000001', '0.0000005 seconds', '0.0000015 seconds', '1.23456789 hours', '1e3 seconds', 'epoch',
  '-1 year -2 mons +3 days -04:05:06', '1 year ago 2 days', '10 d', '1 w', '1 c', '1 mil', '1 dec', '1 mins', '2 hr', '2 hrs', '1.1 mons', '1.2 years', '-0.1 mons', '.5 day']) i;
insert into attempts(type, input) select 'bytea', i from unnest(array[
  '\x', '\xdeadbeef', '\xDEADBEEF', '\xde ad be ef', '\xd', '\xzz', 'abc', 'a\\b', 'a\001b', '\000', '\377', '\400', '\9', '\', 'a b', '', E'\\x0a\n0b', '\X00']) i;
insert into attempts(type, input) select 'integer[]', i from unnest(array[
  '{}', '{1,2,3}', ' { 1 , 2 } ', '{1,NULL,3}', '{null}', '{"1","2"}', '{{1,2},{3,4}}', '{1,2', '1,2}', '{1,,2}', '{1,}', '{,}', '{abc}', '', '{{1},{2,3}}', '{1}{2}', '{1} x', '{"1" 2}', '{{}}', '{1,{2}}']) i;
insert into attempts(type, input) select 'text[]', i from unnest(array[
  '{a,b}', '{"a b",c}', '{"a,b"}', '{"a\"b"}', '{a\,b}', '{"NULL",NULL,null}', '{ a b , c }', '{""}', '{"a"b}', '{"a}', '{"\\"}', '{ü}', '{a"b"}', '{  "x"  }', '{[}']) i;
insert into attempts(type, input) select 'text', i from unnest(array['', ' a ', 'NULL', 'ünï']) i;

copy (select type, input, pg_temp.attempt(type, input) from attempts order by n) to stdout;
