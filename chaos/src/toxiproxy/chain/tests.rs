//! Chains in virtual time: exact delays, and the law that nothing is lost, doubled or moved.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::toxiproxy::stream::Stream;
use crate::toxiproxy::toxic::attributes::{
    Bandwidth, Hold, Latency, LimitData, Noop, ResetPeer, Slicer, SlowClose, Timeout,
};
use crate::toxiproxy::toxic::{Attributes, Chunk};

const fn ms(value: u64) -> Duration {
    Duration::from_millis(value)
}

fn spec(id: u64, attributes: Attributes) -> ToxicSpec {
    ToxicSpec {
        id,
        revision: 0,
        name: format!("toxic-{id}"),
        kind: String::new(),
        stream: Stream::Upstream,
        stream_text: String::new(),
        toxicity: 1.0,
        attributes,
        clients: None,
        counters: Arc::default(),
        line: Arc::default(),
    }
}

fn latency(id: u64, latency: i64) -> ToxicSpec {
    spec(id, Attributes::Latency(Latency { latency, jitter: 0 }))
}

fn key(number: u64) -> ConnectionKey {
    ConnectionKey { seed: 1, proxy: "p".to_owned(), number, client: IpAddr::from([127, 0, 0, 1]) }
}

fn chain(toxics: &[ToxicSpec]) -> Chain {
    let mut chain = Chain::new(key(1));
    chain.reconcile(Duration::ZERO, toxics.iter());
    chain
}

fn bytes(now: Duration, bytes: &[u8]) -> Event {
    Event::Chunk(Chunk { bytes: Bytes::copy_from_slice(bytes), stamp: now })
}

/// Takes all that is due; whether the end is among it.
fn take(chain: &mut Chain, into: &mut Vec<u8>) -> Option<Event> {
    loop {
        match chain.front() {
            Some(Event::Chunk(chunk)) => {
                into.extend_from_slice(&chunk.bytes);
                let length = chunk.bytes.len();
                chain.advance(length);
            }
            last => return last.cloned(),
        }
    }
}

/// When a single chunk pushed at 0 comes out.
fn exit_time(toxics: &[ToxicSpec]) -> Duration {
    let mut chain = chain(toxics);
    chain.push(Duration::ZERO, bytes(Duration::ZERO, b"x"));
    let mut now = Duration::ZERO;
    while chain.front().is_none() {
        now = chain.deadline().expect("it comes out some time");
        chain.tick(now);
    }
    now
}

#[test]
fn delays_are_exact_and_add_up() {
    // P47 P49
    for millis in [0, 100, 1_000] {
        assert_eq!(exit_time(&[latency(1, millis)]), ms(millis as u64));
    }
    assert_eq!(exit_time(&[latency(1, 500), latency(2, 500)]), ms(1_000));
    assert_eq!(exit_time(&[latency(1, 100), spec(2, Attributes::Noop(Noop {})), latency(3, 0)]), ms(100));
}

#[test]
fn latency_does_not_limit_throughput() {
    // P50: under 100 ms, 100 MB/s need 10 MB in flight; the chain must go on reading that far.
    let mut chain = chain(&[latency(1, 100)]);
    let block = Bytes::from(vec![7; 32 * 1024]);
    let mut sent = 0;
    while chain.has_room() && sent < 64 << 20 {
        chain.push(ms(0), Event::Chunk(Chunk { bytes: block.clone(), stamp: ms(0) }));
        sent += block.len();
    }
    assert!((10_000_000..=34 << 20).contains(&sent), "{sent} bytes in flight");
    chain.tick(ms(100));
    assert_eq!(take(&mut chain, &mut Vec::new()), None);
    assert_eq!(chain.held_bytes(), 0);
}

#[test]
fn a_full_queue_stops_the_reading_and_nothing_else() {
    // P46 P60: the sink takes nothing, every toxic can still come, change and go.
    let mut toxics = vec![spec(1, Attributes::Hold(Hold {})), latency(2, 10_000), spec(3, Attributes::Noop(Noop {}))];
    let mut chain = chain(&toxics);
    while chain.has_room() {
        chain.push(ms(0), bytes(ms(0), &[1; 4_096]));
    }
    assert!(chain.held_bytes() < QUEUE_CAP_BYTES + 4_096);
    let held = chain.held_bytes();
    while toxics.pop().is_some() {
        chain.reconcile(ms(1), toxics.iter());
        assert_eq!(chain.held_bytes(), held);
    }
    assert!(!chain.has_room());
    let mut seen = Vec::new();
    assert_eq!(take(&mut chain, &mut seen), None);
    assert_eq!(seen.len(), held);
    assert!(chain.has_room());
}

#[test]
fn toxicity_is_drawn_once() {
    // P44 P74
    let mut stable = 0;
    for number in 1..=200 {
        let mut chain = Chain::new(key(number));
        let mut hold = spec(1, Attributes::Hold(Hold {}));
        hold.toxicity = 0.5;
        let mut toxics = vec![hold];
        let mut held = Vec::new();
        for step in 0..6 {
            chain.reconcile(ms(step), toxics.iter());
            chain.push(ms(step), bytes(ms(step), b"x"));
            held.push(chain.stages[0].held_bytes() > 0);
            // A neighbour comes, the toxic itself is updated.
            toxics.push(spec(10 + step, Attributes::Noop(Noop {})));
            toxics[0].revision += 1;
        }
        assert!(held.iter().all(|now| *now == held[0]), "drawn again on connection {number}: {held:?}");
        stable += usize::from(held[0]);
        toxics[0].toxicity = 1.0;
        toxics[0].revision += 1;
        chain.reconcile(ms(9), toxics.iter());
        chain.push(ms(9), bytes(ms(9), b"y"));
        assert!(chain.stages[0].held_bytes() > 0, "an update to 1 acts on the open connection");
    }
    assert!((70..=130).contains(&stable), "{stable} of 200 with toxicity 0.5");
}

#[test]
fn toxicity_zero_leaves_no_trace() {
    // P44: also not on removal, which would close a connection that the toxic acts on.
    for attributes in [
        Attributes::Timeout(Timeout { timeout: 0, deadline: 1 }),
        Attributes::ResetPeer(ResetPeer { timeout: 0 }),
        Attributes::LimitData(LimitData { bytes: 0 }),
    ] {
        let mut toxic = spec(1, attributes);
        toxic.toxicity = 0.0;
        let mut chain = chain(std::slice::from_ref(&toxic));
        chain.push(ms(1), bytes(ms(1), b"abc"));
        chain.tick(ms(10_000));
        chain.reconcile(ms(10_001), std::iter::empty());
        let mut seen = Vec::new();
        assert_eq!((take(&mut chain, &mut seen), seen.as_slice()), (None, b"abc".as_slice()));
        assert_eq!(toxic.counters.connections_hit.load(Relaxed), 0);
    }
}

#[test]
fn a_toxic_that_lost_bytes_closes_when_it_stops_acting() {
    // P57
    let toxic = spec(1, Attributes::Timeout(Timeout { timeout: 0, deadline: 0 }));
    let mut gone = chain(std::slice::from_ref(&toxic));
    gone.push(ms(0), bytes(ms(0), b"lost"));
    gone.reconcile(ms(1), std::iter::empty());
    assert_eq!(gone.front(), Some(&Event::Close));
    let counters = &toxic.counters;
    assert_eq!((counters.dropped_bytes.load(Relaxed), counters.connections_closed.load(Relaxed)), (4, 1));
    let mut tamed = toxic.clone();
    tamed.toxicity = 0.0;
    tamed.revision = 1;
    let mut tame = chain(std::slice::from_ref(&toxic));
    tame.push(ms(0), bytes(ms(0), b"lost"));
    tame.reconcile(ms(1), std::iter::once(&tamed));
    assert_eq!(tame.front(), Some(&Event::Close));
}

#[test]
fn nothing_follows_a_close_and_a_reset_overtakes() {
    let mut limited = chain(&[spec(1, Attributes::LimitData(LimitData { bytes: 2 }))]);
    limited.push(ms(0), bytes(ms(0), b"abc"));
    limited.push(ms(0), bytes(ms(0), b"def"));
    limited.push(ms(0), Event::End);
    assert!(limited.is_closing());
    let mut seen = Vec::new();
    assert_eq!((take(&mut limited, &mut seen), seen.as_slice()), (Some(Event::Close), b"ab".as_slice()));
    let mut toxics = vec![];
    let mut reset = chain(&toxics);
    reset.push(ms(0), bytes(ms(0), b"unsent"));
    toxics.push(spec(1, Attributes::ResetPeer(ResetPeer { timeout: 0 })));
    reset.reconcile(ms(1), toxics.iter());
    reset.push(ms(1), bytes(ms(1), b"x"));
    assert_eq!(reset.front(), Some(&Event::Reset));
}

#[test]
fn a_limit_goes_on_counting_when_neighbours_change() {
    // P45 P52
    let limit = spec(1, Attributes::LimitData(LimitData { bytes: 5 }));
    let mut chain = chain(std::slice::from_ref(&limit));
    chain.push(ms(0), bytes(ms(0), b"abc"));
    chain.reconcile(ms(1), [&limit, &latency(2, 0)].into_iter());
    chain.reconcile(ms(2), std::iter::once(&limit));
    chain.push(ms(2), bytes(ms(2), b"defgh"));
    let mut seen = Vec::new();
    assert_eq!((take(&mut chain, &mut seen), seen.as_slice()), (Some(Event::Close), b"abcde".as_slice()));
}

#[test]
fn an_end_that_no_toxic_lets_go_is_told_from_one_that_waits() {
    let kept = |attributes, sent: &[u8]| {
        let mut chain = chain(&[spec(1, attributes)]);
        if !sent.is_empty() {
            chain.push(ms(0), bytes(ms(0), sent));
        }
        chain.push(ms(0), Event::End);
        chain.keeps_only_the_end()
    };
    assert!(kept(Attributes::Hold(Hold {}), b""));
    assert!(!kept(Attributes::Hold(Hold {}), b"may still arrive"));
    assert!(!kept(Attributes::SlowClose(SlowClose { delay: 10 }), b""));
    assert!(!kept(Attributes::Latency(Latency { latency: 10, jitter: 0 }), b""));
    assert!(!kept(Attributes::Bandwidth(Bandwidth { rate: 0, shared: 0 }), b"stalled"));
    assert!(!kept(Attributes::Noop(Noop {}), b""), "it is on its way");
}

/// A toxic that may delay but must not lose.
fn gentle() -> impl Strategy<Value = Attributes> {
    prop_oneof![
        (0_i64..50, 0_i64..50).prop_map(|(latency, jitter)| Attributes::Latency(Latency { latency, jitter })),
        (0_i64..5, 0_i64..2).prop_map(|(rate, shared)| Attributes::Bandwidth(Bandwidth { rate, shared })),
        (2_i64..40, 0_i64..2, 0_i64..3_000).prop_map(|(average_size, size_variation, delay)| Attributes::Slicer(
            Slicer { average_size, size_variation, delay }
        )),
        (0_i64..50).prop_map(|delay| Attributes::SlowClose(SlowClose { delay })),
        Just(Attributes::Noop(Noop {})),
        Just(Attributes::Hold(Hold {})),
        Just(Attributes::LimitData(LimitData { bytes: 1 << 40 })),
        Just(Attributes::ResetPeer(ResetPeer { timeout: 1 << 40 })),
    ]
}

#[derive(Debug, Clone)]
enum Act {
    Send(usize),
    Wait(u64),
    Take,
    Add(Attributes, f32),
    Update(usize, Attributes, f32),
    Remove(usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (1_usize..300).prop_map(Act::Send),
        4 => (0_u64..40).prop_map(Act::Wait),
        2 => Just(Act::Take),
        2 => (gentle(), 0.0_f32..=1.0).prop_map(|(attributes, toxicity)| Act::Add(attributes, toxicity)),
        1 => (0_usize..8, gentle(), 0.0_f32..=1.0).prop_map(|(at, attributes, toxicity)| Act::Update(at, attributes, toxicity)),
        2 => (0_usize..8).prop_map(Act::Remove),
    ]
}

fn same_type(left: &Attributes, right: &Attributes) -> bool {
    std::mem::discriminant(left) == std::mem::discriminant(right)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// P43: whatever comes, changes and goes, every byte arrives once and in order, then the end.
    #[test]
    fn nothing_is_lost_doubled_or_moved(acts in prop::collection::vec(act(), 1..60)) {
        let mut chain = chain(&[]);
        let (mut now, mut sent, mut seen, mut next_id) = (ms(0), Vec::new(), Vec::new(), 0);
        let mut toxics: Vec<ToxicSpec> = Vec::new();
        for act in acts {
            match act {
                Act::Send(length) => {
                    let part: Vec<u8> = (sent.len()..sent.len() + length).map(|n| (n * 31 + n / 256) as u8).collect();
                    chain.push(now, bytes(now, &part));
                    sent.extend(part);
                }
                Act::Wait(millis) => {
                    now += ms(millis);
                    chain.tick(now);
                }
                Act::Take => prop_assert_eq!(take(&mut chain, &mut seen), None),
                Act::Add(attributes, toxicity) => {
                    next_id += 1;
                    toxics.push(ToxicSpec { toxicity, ..spec(next_id, attributes) });
                }
                Act::Update(at, attributes, toxicity) => {
                    if let Some(toxic) = toxics.get_mut(at).filter(|toxic| same_type(&toxic.attributes, &attributes)) {
                        toxic.attributes = attributes;
                        toxic.toxicity = toxicity;
                        toxic.revision += 1;
                    }
                }
                Act::Remove(at) if at < toxics.len() => drop(toxics.remove(at)),
                Act::Remove(_) => {}
            }
            chain.reconcile(now, toxics.iter());
        }
        chain.push(now, Event::End);
        chain.reconcile(now, std::iter::empty());
        prop_assert_eq!(take(&mut chain, &mut seen), Some(Event::End));
        prop_assert_eq!(chain.held_bytes(), 0);
        prop_assert!(seen == sent, "{} bytes sent, {} arrived", sent.len(), seen.len());
    }
}
