//! Whatever is done to a file shows, and the line is named.

use proptest::prelude::*;

use super::*;

const HEADER: &str = "\"format\":\"ragbus-audit\",\"version\":1,\"tenant\":\"t1\",\"corpus\":\"\",\
    \"since\":\"2026-01-01T00:00:00Z\",\"until\":\"2026-02-01T00:00:00Z\",\"windowClosed\":true";

fn retrieval(number: usize) -> String {
    format!(
        "\"tenant\":\"t1\",\"corpus\":\"c\",\"at\":\"2026-01-02T00:00:{number:02}Z\",\"retrievalId\":\"{number:036}\",\"query\":\"ü \\\"{number}\\\"\""
    )
}

fn sealed(header: &str, retrievals: &[String], count: usize) -> Vec<String> {
    let mut chain = Chain::new();
    let mut lines = vec![chain.seal("header", header)];
    lines.extend(retrievals.iter().map(|r| chain.seal("retrieval", r)));
    let end = format!("\"count\":{count},\"lastHash\":\"{}\"", chain.last());
    lines.push(chain.seal("end", &end));
    lines
}

fn file(count: usize) -> Vec<String> {
    let retrievals: Vec<String> = (0..count).map(retrieval).collect();
    sealed(HEADER, &retrievals, count)
}

fn fault(lines: &[String]) -> Fault {
    verify(lines.concat().as_bytes()).expect_err("a fault")
}

#[test]
fn a_sound_file_says_what_it_holds() {
    for count in [0, 1, 5] {
        let lines = file(count);
        let found = verify(lines.concat().as_bytes()).expect("sound");
        assert_eq!((found.tenant.as_str(), found.count), ("t1", count as u64));
        assert!(found.closed && lines[count + 1].contains(&found.last_hash));
    }
}

/// Every byte, in every other value of one bit and some more.
#[test]
fn every_changed_byte_is_found_in_its_line() {
    let lines = file(3);
    let whole = lines.concat().into_bytes();
    let line_of = |at: usize| 1 + whole[..at].iter().filter(|b| **b == b'\n').count() as u64;
    for at in 0..whole.len() {
        for other in [1, 2, 4, 8, 16, 32, 64, 128] {
            let mut changed = whole.clone();
            changed[at] ^= other;
            let fault = verify(&changed[..]).expect_err("a fault");
            assert_eq!(fault.line, line_of(at), "byte {at}: {fault:?}");
        }
    }
}

#[test]
fn removed_moved_doubled_and_cut_off_lines_are_found() {
    let lines = file(4);
    for at in 0..lines.len() {
        let mut less = lines.clone();
        less.remove(at);
        assert_eq!(fault(&less).line, at as u64 + 1, "without line {at}");
        let mut twice = lines.clone();
        twice.insert(at, lines[at].clone());
        assert_eq!(fault(&twice).line, at as u64 + 2, "line {at} twice");
        for other in at + 1..lines.len() {
            let mut swapped = lines.clone();
            swapped.swap(at, other);
            assert_eq!(fault(&swapped).line, at as u64 + 1, "{at} and {other}");
        }
    }
    let whole = lines.concat();
    for end in 0..whole.len() {
        let cut = verify(&whole.as_bytes()[..end]);
        assert!(cut.is_err(), "cut at {end}");
    }
}

/// What a chain alone would not show: lines that were sealed again, but don't belong there.
#[test]
fn what_contradicts_itself_is_found_though_sealed() {
    let two = [retrieval(1), retrieval(2)];
    let backwards = sealed(HEADER, &[two[1].clone(), two[0].clone()], 2);
    assert_eq!(fault(&backwards).line, 3);
    assert_eq!(fault(&sealed(HEADER, &two, 3)).line, 4);
    let foreign = two[1].replace("t1", "t2");
    assert_eq!(
        fault(&sealed(HEADER, &[two[0].clone(), foreign], 2)).line,
        3
    );
    let outside = two[1].replace("2026-01-02", "2026-02-01");
    assert_eq!(fault(&sealed(HEADER, &[outside], 1)).line, 2);
    let newer = HEADER.replace("\"version\":1", "\"version\":2");
    assert_eq!(fault(&sealed(&newer, &two, 2)).line, 1);
    let other_corpus = HEADER.replace("\"corpus\":\"\"", "\"corpus\":\"d\"");
    assert_eq!(fault(&sealed(&other_corpus, &two, 2)).line, 2);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(verify(&bytes[..]).is_err());
    }
}
