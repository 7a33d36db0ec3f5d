use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::port::{Fragment, Kind, Message};
use super::*;

/// What lies between two processes of a test: a queue to each, of bounded length.
#[derive(Default)]
struct Wire {
    queues: [VecDeque<(Rank, Message)>; 2],
    room: usize,
    steps: Vec<(Function, Step, u64)>,
}

struct TestPort {
    rank: Rank,
    wire: Rc<RefCell<Wire>>,
    function: Function,
}

impl Port for TestPort {
    fn rank(&self) -> Rank {
        self.rank
    }
    fn ranks(&self) -> u32 {
        2
    }
    fn fragment_bytes(&self) -> usize {
        64
    }
    fn page_bytes(&self) -> usize {
        64
    }
    fn attach(&mut self, _region: Region, _bytes: usize) -> Result<(), Stop> {
        Ok(())
    }
    fn send(&mut self, to: Rank, message: Message) -> Result<Option<Message>, Stop> {
        let mut wire = self.wire.borrow_mut();
        let room = wire.room;
        let queue = &mut wire.queues[to as usize];
        if queue.len() >= room {
            return Ok(Some(message));
        }
        queue.push_back((self.rank, message));
        Ok(None)
    }
    fn receive(&mut self) -> Result<Option<(Rank, Message)>, Stop> {
        Ok(self.wire.borrow_mut().queues[self.rank as usize].pop_front())
    }
    fn wait(&mut self, _awaited: Awaited) -> Result<(), Stop> {
        Err(Stop)
    }
    fn work(&mut self, _work: Work) {}
    fn step(&mut self, step: Step, times: u64) {
        let entry = (self.function, step, times);
        self.wire.borrow_mut().steps.push(entry);
    }
    fn enter(&mut self, function: Function) -> Function {
        std::mem::replace(&mut self.function, function)
    }
}

type Seen = Vec<(Rank, Vec<u64>, Option<Span>)>;

const NOTE: HandlerId = HandlerId(0);
const ANSWER: HandlerId = HandlerId(1);
const TWICE: HandlerId = HandlerId(2);

fn note(arrival: &mut Arrival<'_, Seen>) -> Result<(), AmError> {
    let entry = (arrival.source, arrival.words.to_vec(), arrival.landed);
    arrival.state.push(entry);
    Ok(())
}

fn answer(arrival: &mut Arrival<'_, Seen>) -> Result<(), AmError> {
    let word = arrival.word(0)?;
    note(arrival)?;
    arrival.reply(NOTE, &[word + 1])
}

fn twice(arrival: &mut Arrival<'_, Seen>) -> Result<(), AmError> {
    arrival.reply(NOTE, &[])?;
    arrival.reply(NOTE, &[])
}

const HANDLERS: &Handlers<Seen> = &[note, answer, twice];

fn pair(room: usize) -> [Endpoint<TestPort, Seen>; 2] {
    let wire = Rc::new(RefCell::new(Wire {
        room,
        ..Wire::default()
    }));
    [0, 1].map(|rank| {
        let port = TestPort {
            rank,
            wire: Rc::clone(&wire),
            function: Function::Compute,
        };
        Endpoint::new(port, Seen::new(), HANDLERS)
    })
}

#[test]
fn a_request_runs_its_handler_and_the_reply_another() {
    let [mut a, mut b] = pair(4);
    a.request(1, ANSWER, &[41]).expect("sent");
    assert_eq!(b.poll(), Ok(1));
    assert_eq!(*b.state(), vec![(0, vec![41], None)]);
    assert_eq!(a.poll(), Ok(1));
    assert_eq!(*a.state(), vec![(1, vec![42], None)]);
    assert_eq!((a.poll(), b.poll()), (Ok(0), Ok(0)));
}

#[test]
fn a_store_lands_whole_before_its_handler_runs() {
    let [mut a, mut b] = pair(8);
    let from = a.make_region(300).expect("made");
    let into = b.make_region(400).expect("made");
    let written = a
        .memory_mut()
        .write_numbers(from.at(0), (0..75_u32).map(|number| number * 3));
    assert!(written);
    let span = from.at(4).span(292);
    a.store(1, span, into.at(100), NOTE, 7).expect("stored");
    // To the end of the first page, whole pages, the rest.
    assert_eq!(b.poll(), Ok(5));
    assert_eq!(*b.state(), vec![(0, vec![7], Some(into.at(100).span(292)))]);
    let landed: Vec<u32> = b.memory().numbers(into.at(100), 73).collect();
    assert_eq!(landed, (1..74).map(|number| number * 3).collect::<Vec<_>>());
}

#[test]
fn a_get_reads_there_and_runs_its_handler_here() {
    let [mut a, mut b] = pair(8);
    let into = a.make_region(200).expect("made");
    let source = b.make_region(200).expect("made");
    assert!(b.memory_mut().write_numbers(source.at(8), [1.5_f64, 2.5]));
    a.get(1, source.at(8).span(16), into.at(0), NOTE, 9)
        .expect("asked");
    assert_eq!(b.poll(), Ok(1));
    assert!(b.state().is_empty(), "a get runs nothing at its source");
    assert_eq!(a.poll(), Ok(1));
    assert_eq!(*a.state(), vec![(1, vec![9], Some(into.at(0).span(16)))]);
    let got: Vec<f64> = a.memory().numbers(into.at(0), 2).collect();
    assert_eq!(got, [1.5, 2.5]);
}

#[test]
fn answers_that_find_no_room_wait_and_keep_their_order() {
    let [mut a, mut b] = pair(2);
    let into = a.make_region(640).expect("made");
    let source = b.make_region(640).expect("made");
    let numbers = || (0..160_u32).map(|number| number ^ 5);
    assert!(b.memory_mut().write_numbers(source.at(0), numbers()));
    a.get(1, source.at(0).span(640), into.at(0), NOTE, 0)
        .expect("asked");
    a.request(1, ANSWER, &[1]).expect("sent");
    for _ in 0..12 {
        b.poll().expect("polls");
        a.poll().expect("polls");
    }
    let whole = Some(into.at(0).span(640));
    assert_eq!(*a.state(), vec![(1, vec![0], whole), (1, vec![2], None)]);
    assert!(a.memory().numbers::<u32>(into.at(0), 160).eq(numbers()));
}

#[test]
fn who_finds_no_room_polls_and_then_waits_by_name() {
    let [mut a, mut b] = pair(1);
    a.request(1, NOTE, &[]).expect("the first has room");
    b.request(0, NOTE, &[3]).expect("so has this");
    assert_eq!(a.request(1, NOTE, &[]), Err(AmError::Stopped));
    assert_eq!(*a.state(), vec![(1, vec![3], None)], "it polled");
}

#[test]
fn mistakes_are_told_from_each_other() {
    let [mut a, mut b] = pair(8);
    let mine = a.make_region(64).expect("made");
    let missing = Region(5).at(0).span(8);
    assert_eq!(a.request(2, NOTE, &[]), Err(AmError::NoProcess(2, 2)));
    assert_eq!(a.request(1, NOTE, &[0; 5]), Err(AmError::TooManyWords(5)));
    let refused = a.store(1, missing, mine.at(0), NOTE, 0);
    assert!(matches!(refused, Err(AmError::NoMemory { owner: 0, .. })));
    let beyond = a.get(1, mine.at(0).span(8), mine.at(60), NOTE, 0);
    assert!(matches!(beyond, Err(AmError::NoMemory { offset: 60, .. })));

    a.store(1, mine.at(0).span(64), mine.at(0), NOTE, 0)
        .expect("only the other side knows its memory");
    let error = b.poll().expect_err("b has no memory");
    assert!(
        error
            .to_string()
            .contains("process 0 names 64 bytes at 0 of region 0")
    );
    a.request(1, HandlerId(9), &[]).expect("sent");
    assert!(matches!(
        b.poll(),
        Err(AmError::NoHandler { handler: 9, .. })
    ));
    a.request(1, TWICE, &[]).expect("sent");
    assert_eq!(b.poll(), Err(AmError::SecondReply(2)));
    a.request(1, ANSWER, &[]).expect("sent");
    assert!(matches!(b.poll(), Err(AmError::Refused { .. })));
}

#[test]
fn a_message_counts_its_bytes_and_the_layer_its_steps() {
    let [mut a, mut b] = pair(8);
    let region = a.make_region(64).expect("made");
    b.make_region(64).expect("made");
    a.store(1, region.at(0).span(10), region.at(0), NOTE, 0)
        .expect("stored");
    let message = a.port().wire.borrow().queues[1][0].1.clone();
    assert_eq!(message.bytes(), port::HEADER_BYTES + 8 + 10);
    assert!(matches!(
        message.kind,
        Kind::Store(Fragment {
            landed: Some(_),
            ..
        })
    ));
    b.poll().expect("polls");
    let wire = &a.port().wire;
    let steps = wire.borrow().steps.clone();
    assert_eq!(
        steps,
        [
            (Function::Store, Step::Compose, 1),
            (Function::Poll, Step::EnterPoll, 1),
            (Function::Poll, Step::LandWord, 3),
            (Function::Poll, Step::Dispatch, 1),
        ]
    );
}
