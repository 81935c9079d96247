//! Packets as bytes, their distribution, and one exchange through each way that timely has of passing them on.

use super::*;
use crate::rows::{Bag, Cell, Random, Row, add_changes, changes, schema};
use arrow::array::{
    BinaryArray, FixedSizeBinaryArray, Int64Array, IntervalMonthDayNanoArray, StringArray, Time64MicrosecondArray,
};
use arrow::datatypes::{IntervalMonthDayNano, IntervalUnit, TimeUnit};
use cenote_statestore::storable;
use parking_lot::Mutex;
use std::os::unix::net::UnixStream;
use std::time::Instant;
use timely::WorkerConfig;
use timely::bytes::arc::BytesMut;
use timely::communication::allocator::ProcessBuilder;
use timely::communication::allocator::zero_copy::initialize::initialize_networking_from_sockets;
use timely::communication::{Allocator, Hooks};
use timely::container::NoopBuilder;
use timely::dataflow::channels::pact::DistributorPact;
use timely::dataflow::operators::generic::operator::Operator;
use timely::dataflow::operators::{Input, Probe};
use timely::worker::Worker;

/// One column of every type that can be stored, with a NULL in the middle.
fn columns() -> Vec<ArrayRef> {
    let numbers = |kind: DataType| crate::rows::array(&kind, [1, 0, -1].map(Cell::Number).iter());
    let numbers = |kind: DataType| -> ArrayRef {
        let nulls = Int64Array::from(vec![Some(0), None, Some(0)]);
        arrow::compute::nullif(&numbers(kind), &arrow::compute::is_null(&nulls).unwrap()).unwrap()
    };
    let micros = TimeUnit::Microsecond;
    vec![
        numbers(DataType::Boolean),
        numbers(DataType::Int16),
        numbers(DataType::Int32),
        numbers(DataType::Int64),
        crate::rows::array(
            &DataType::UInt64,
            [Cell::Number(7), Cell::Null, Cell::Number(1 << 40)].iter(),
        ),
        crate::rows::array(
            &DataType::Float32,
            [Cell::float(-0.0), Cell::Null, Cell::float(1.5)].iter(),
        ),
        crate::rows::array(
            &DataType::Float64,
            [Cell::float(f64::NAN), Cell::Null, Cell::float(-0.0)].iter(),
        ),
        crate::rows::array(
            &DataType::Decimal128(38, 9),
            [Cell::Number(i128::MAX / 2), Cell::Null, Cell::Number(-1)].iter(),
        ),
        numbers(DataType::Date32),
        Arc::new(Time64MicrosecondArray::from(vec![Some(5), None, Some(86_399_999_999)])),
        numbers(DataType::Timestamp(micros, None)),
        numbers(DataType::Timestamp(micros, Some("UTC".into()))),
        Arc::new(IntervalMonthDayNanoArray::from(vec![
            Some(IntervalMonthDayNano::new(1, -2, 3)),
            None,
            Some(IntervalMonthDayNano::ZERO),
        ])),
        Arc::new(FixedSizeBinaryArray::from(vec![
            Some(&[0xffu8; 16][..]),
            None,
            Some(&[1; 16]),
        ])),
        Arc::new(StringArray::from(vec![
            Some(""),
            None,
            Some("a text of more than twelve bytes, ä"),
        ])),
        Arc::new(BinaryArray::from(vec![Some(&b"\0\xff"[..]), None, Some(b"")])),
    ]
}

fn every_type() -> RecordBatch {
    let columns = columns();
    let fields: Vec<Field> = columns
        .iter()
        .enumerate()
        .map(|(i, c)| Field::new(format!("c{i}"), c.data_type().clone(), true))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// Writes a packet and reads it again, with bytes behind it that are not its own.
fn round_trip(packet: &Packet) -> Packet {
    let mut bytes = Vec::new();
    packet.into_bytes(&mut bytes);
    assert_eq!(bytes.len(), packet.length_in_bytes());
    assert_eq!(bytes.len() % 8, 0);
    Packet::from_bytes(BytesMut::from(bytes).freeze())
}

fn assert_survives(given: Changes) {
    let got = round_trip(&Packet::new(given.clone()))
        .into_changes()
        .expect("changes come back");
    assert_eq!(got.rows().columns(), given.rows().columns());
    assert_eq!(got.len(), given.len());
    let weights = |changes: &Changes| {
        (0..changes.len())
            .map(|row| changes.weights().get(row))
            .collect::<Vec<_>>()
    };
    assert_eq!(weights(&got), weights(&given));
    assert_eq!(got.schema().fields(), given.schema().fields());
}

#[test]
fn rows_of_every_storable_type_come_back_as_they_were() {
    let batch = every_type();
    let kinds: Vec<&DataType> = batch
        .schema_ref()
        .fields()
        .iter()
        .map(|field| field.data_type())
        .collect();
    assert!(kinds.iter().all(|kind| storable(kind)));
    assert!(kinds.contains(&&DataType::Interval(IntervalUnit::MonthDayNano)));
    assert_survives(Changes::new(batch.clone(), Weights::Each(vec![3, -1, i64::MIN])));
    assert_survives(Changes::deletions(batch.clone()));
    for (offset, length) in [(1, 2), (2, 1), (1, 1), (0, 0)] {
        assert_survives(Changes::insertions(batch.clone()).slice(offset, length));
    }
}

#[test]
fn rows_without_columns_come_back_by_their_number() {
    let none = Arc::new(Schema::empty());
    assert_survives(Changes::new(
        Changes::batch(none, vec![], 4).unwrap(),
        Weights::Each(vec![1, -1, 2, 5]),
    ));
}

#[test]
fn a_column_may_be_called_weight() {
    let schema = schema(&[("weight", DataType::Int64), ("weight", DataType::Utf8)]);
    assert_survives(changes(&schema, &[(vec![Cell::Number(7), Cell::text("x")], 2)]));
}

#[test]
fn an_empty_packet_comes_back_empty() {
    assert!(round_trip(&Packet::default()).into_changes().is_none());
    assert_eq!(Packet::default().record_count(), 0);
}

/// Keeps what is pushed.
#[derive(Default)]
struct Kept(Vec<Changes>);

impl Push<Message<u64, Packet>> for Kept {
    fn push(&mut self, element: &mut Option<Message<u64, Packet>>) {
        self.0
            .extend(element.take().and_then(|message| message.data.into_changes()));
    }
}

#[test]
fn every_row_goes_whole_to_the_worker_that_owns_its_key() {
    let schema = schema(&[("k", DataType::Utf8), ("n", DataType::Int64)]);
    let mut random = Random::new(1);
    for targets in [2, 3, 7] {
        for distinct in [1, 40] {
            let row = |random: &mut Random| {
                let key = if random.one_in(9) {
                    Cell::Null
                } else {
                    Cell::text(&format!("key {}", random.below(distinct)))
                };
                (
                    vec![key, Cell::Number(random.below(1000) as i128)],
                    random.below(5) as i64 - 2,
                )
            };
            let given: Vec<(Row, i64)> = (0..500).map(|_| row(&mut random)).collect();
            let given = changes(&schema, &given);
            let mut pushers: Vec<Kept> = (0..targets).map(|_| Kept::default()).collect();
            let mut packet = Packet::new(given.clone());
            HashDistributor::new(vec![0]).partition(&mut packet, &Stamp::from_elem(0u64), &mut pushers);
            let (mut sent, mut all, mut wanted) = (0, Bag::new(), Bag::new());
            for (target, pusher) in pushers.iter().enumerate() {
                for part in &pusher.0 {
                    assert!(
                        !part.is_empty(),
                        "an empty packet would escape timely's count of messages"
                    );
                    let hashes = hash_rows(&part.rows().columns()[..1], part.len());
                    assert!(hashes.iter().all(|hash| shard_of(*hash, targets) == target));
                    sent += part.len();
                    add_changes(&mut all, part);
                }
            }
            add_changes(&mut wanted, &given);
            assert_eq!(sent, given.len());
            assert_eq!(all, wanted);
        }
    }
}

#[test]
fn rows_without_a_key_go_to_one_worker() {
    let none = Arc::new(Schema::empty());
    let given = Changes::insertions(Changes::batch(none, vec![], 9).unwrap());
    let mut pushers: Vec<Kept> = (0..4).map(|_| Kept::default()).collect();
    HashDistributor::new(vec![]).partition(&mut Packet::new(given), &Stamp::from_elem(0u64), &mut pushers);
    let sent: Vec<usize> = pushers
        .iter()
        .map(|pusher| pusher.0.iter().map(Changes::len).sum())
        .collect();
    assert_eq!(sent.iter().filter(|rows| **rows == 9).count(), 1);
    assert_eq!(sent.iter().sum::<usize>(), 9);
}

/// What each worker received, by epoch.
type Received = Arc<Mutex<Vec<(usize, u64, Changes)>>>;

const EPOCHS: u64 = 20;

fn sent_by(worker: usize, epoch: u64) -> Changes {
    let batch = every_type();
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(
        (0..3).map(|row| (worker as i64 * 100 + epoch as i64) * 3 + row),
    ));
    let fields: Vec<Field> = batch
        .schema()
        .fields()
        .iter()
        .map(|f| f.as_ref().clone())
        .chain([Field::new("key", DataType::Int64, true)])
        .collect();
    let columns = batch.columns().iter().cloned().chain([keys]).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    Changes::new(batch, Weights::Each(vec![1, -2, epoch as i64 + 1]))
}

/// One worker of a dataflow that sends packets, exchanges them by key and keeps what arrives.
fn exchange(allocator: Allocator, received: Received) {
    let mut worker = Worker::new(WorkerConfig::default(), allocator, Some(Instant::now()));
    let index = worker.index();
    let (mut input, probe) = worker.dataflow::<u64, _, _>(|scope| {
        let (input, stream) = scope.new_input_with_builder::<NoopBuilder<Packet>>();
        let pact = DistributorPact(|_| HashDistributor::new(vec![columns().len()]));
        let probe = stream
            .unary::<NoopBuilder<Packet>, _, _, _>(pact, "keep", move |_, _| {
                move |input, _output| {
                    input.for_each(|capability, packet| {
                        let epoch = *capability.least().unwrap();
                        let changes = std::mem::take(packet).into_changes().expect("no packet is empty");
                        received.lock().push((index, epoch, changes));
                    });
                }
            })
            .probe();
        (input, probe.0)
    });
    for epoch in 0..EPOCHS {
        input.advance_to(epoch);
        input.send_batch(&mut Packet::new(sent_by(index, epoch)));
        worker.step();
    }
    input.close();
    while worker.has_dataflows() {
        worker.step_or_park(None);
    }
    assert!(probe.done());
}

/// Runs one exchange, one thread per allocator, and checks that all arrived at its owner, of its epoch, as it was.
fn check_exchange(workers: Vec<Box<dyn FnOnce() -> Allocator + Send>>) {
    let (received, peers) = (Received::default(), workers.len());
    let threads: Vec<_> = workers
        .into_iter()
        .map(|build| {
            let received = received.clone();
            std::thread::spawn(move || exchange(build(), received))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let (key, mut got, mut wanted) = (columns().len(), Vec::new(), Vec::new());
    let list = |into: &mut Vec<(u64, String, i64)>, epoch: u64, changes: &Changes| {
        for row in 0..changes.len() {
            let shown = format!("{:?}", changes.rows().slice(row, 1).columns());
            into.push((epoch, shown, changes.weights().get(row)));
        }
    };
    for (worker, epoch, changes) in received.lock().iter() {
        let hashes = hash_rows(&[changes.rows().column(key).clone()], changes.len());
        assert!(hashes.iter().all(|hash| shard_of(*hash, peers) == *worker));
        list(&mut got, *epoch, changes);
    }
    for (worker, epoch) in (0..peers).flat_map(|worker| (0..EPOCHS).map(move |epoch| (worker, epoch))) {
        list(&mut wanted, epoch, &sent_by(worker, epoch));
    }
    got.sort();
    wanted.sort();
    assert_eq!(got, wanted);
    let busy = (0..peers)
        .filter(|peer| received.lock().iter().any(|(worker, _, _)| worker == peer))
        .count();
    assert_eq!(
        busy, peers,
        "every worker receives something, or the exchange was not tested"
    );
}

#[test]
fn packets_pass_between_threads_as_they_are() {
    let hooks = Hooks::default();
    let builders = ProcessBuilder::new_typed_vector(3, hooks.refill, None);
    check_exchange(
        builders
            .into_iter()
            .map(|b| Box::new(move || Allocator::Process(b.build())) as _)
            .collect(),
    );
}

#[test]
fn packets_pass_between_threads_as_bytes() {
    let hooks = Hooks::default();
    let builders = ProcessBuilder::new_bytes_vector(3, hooks.refill, None);
    check_exchange(
        builders
            .into_iter()
            .map(|b| Box::new(move || Allocator::Process(b.build())) as _)
            .collect(),
    );
}

#[test]
fn packets_pass_between_processes_over_a_socket() {
    let (a, b) = UnixStream::pair().unwrap();
    let mut workers: Vec<Box<dyn FnOnce() -> Allocator + Send>> = Vec::new();
    let mut guards = Vec::new();
    for (process, sockets) in [(0, vec![None, Some(a)]), (1, vec![Some(b), None])] {
        let threads = ProcessBuilder::new_bytes_vector(2, Hooks::default().refill, None);
        let (builders, guard) =
            initialize_networking_from_sockets(threads, sockets, process, 2, Hooks::default()).unwrap();
        workers.extend(
            builders
                .into_iter()
                .map(|b| Box::new(move || Allocator::Tcp(b.build())) as _),
        );
        guards.push(guard);
    }
    check_exchange(workers);
}
