//! Topologies against the definitions of the standard, spelled out.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn grids() -> impl Strategy<Value = Cartesian> {
    vec((1..5_i32, any::<bool>()), 0..4).prop_map(|dimensions| {
        let (dims, periods): (Vec<_>, Vec<_>) = dimensions.into_iter().unzip();
        Cartesian::new(&dims, &periods, 64).expect("a small grid")
    })
}

/// All ways to write a number as a product of `count` descending factors.
fn products(number: i32, count: usize, most: i32) -> Vec<Vec<i32>> {
    if count == 0 {
        return if number == 1 { vec![vec![]] } else { vec![] };
    }
    let factors = (1..=most.min(number)).filter(|factor| number % factor == 0);
    let with = |factor: i32| {
        let rest = products(number / factor, count - 1, factor);
        rest.into_iter()
            .map(move |rest| [vec![factor], rest].concat())
    };
    factors.flat_map(with).collect()
}

proptest! {
    #[test]
    fn ranks_and_coordinates_are_each_others_inverse(grid in grids()) {
        let mut all = Vec::new();
        for rank in 0..grid.size() {
            let coordinates = grid.coordinates(rank).expect("a rank");
            prop_assert_eq!(grid.rank(&coordinates), Ok(rank));
            all.push(coordinates);
        }
        prop_assert!(all.is_sorted(), "the last dimension is the fastest");
        prop_assert!(grid.coordinates(grid.size()).is_err());
        prop_assert!(grid.coordinates(-1).is_err());
    }

    #[test]
    fn shifts_go_along_one_dimension(grid in grids(), by in -9..10_i32) {
        for rank in 0..grid.size() {
            let here = grid.coordinates(rank).expect("a rank");
            for dimension in 0..here.len() {
                let there = |by: i32| {
                    let mut there = here.clone();
                    there[dimension] += by;
                    grid.rank(&there).ok()
                };
                let shifted = grid.shift(rank, dimension as i32, by);
                prop_assert_eq!(shifted, Ok((there(-by), there(by))));
            }
            prop_assert!(grid.shift(rank, here.len() as i32, 1).is_err());
        }
    }

    #[test]
    fn parts_have_the_processes_that_share_the_other_coordinates(
        grid in grids(),
        remain in vec(any::<bool>(), 3),
    ) {
        let remain = &remain[..grid.dims.len()];
        let chosen = |rank: i32, which: bool| -> Vec<i32> {
            let coordinates = grid.coordinates(rank).expect("a rank");
            let of = coordinates.iter().zip(remain);
            of.filter(|(_, remains)| **remains == which).map(|(at, _)| *at).collect()
        };
        for a in 0..grid.size() {
            let part = grid.part(a, remain).expect("a part");
            prop_assert_eq!(part.grid.coordinates(part.rank), Ok(chosen(a, true)));
            for b in 0..grid.size() {
                let other = grid.part(b, remain).expect("a part");
                let are_together = chosen(a, false) == chosen(b, false);
                prop_assert_eq!(part.colour == other.colour, are_together);
            }
        }
    }

    #[test]
    fn each_block_that_is_sent_is_received_once(grid in grids()) {
        let topology = Topology::Cartesian(grid.clone());
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        for rank in 0..grid.size() {
            let neighbours = topology.neighbours(rank);
            for to in neighbours.destinations {
                sent.extend(to.rank.map(|to_rank| (rank, to_rank, to.label)));
            }
            for from in neighbours.sources {
                received.extend(from.rank.map(|from_rank| (from_rank, rank, from.label)));
            }
        }
        sent.sort_unstable();
        received.sort_unstable();
        prop_assert_eq!(&sent, &received);
        sent.dedup();
        prop_assert_eq!(sent.len(), received.len(), "no label stands for two blocks");
    }

    #[test]
    fn dimensions_are_balanced(nodes in 1..400_i32, count in 1..5_usize) {
        let mut dims = vec![0; count];
        balance(nodes, &mut dims).expect("any number has factors");
        let best = products(nodes, count, nodes).into_iter().min().expect("one");
        prop_assert_eq!(dims, best);
    }

    #[test]
    fn edges_between_two_are_the_same_to_both(
        edges in vec((0..5_i32, 0..5_i32, 0..9_i32), 0..30),
    ) {
        let edges: Vec<_> = edges
            .into_iter()
            .map(|(source, destination, weight)| Edge { source, destination, weight })
            .collect();
        let own = |rank| Adjacent::of_edges(rank, edges.iter().copied(), true, 5).expect("good edges");
        for a in 0..5 {
            for b in 0..5 {
                let between = edges.iter().filter(|edge| (edge.source, edge.destination) == (a, b));
                let weights: Vec<_> = between.map(|edge| edge.weight).collect();
                let (from, to) = (own(a), own(b));
                let (_, out) = from.weights.expect("weighted");
                let out = from.destinations.iter().zip(out).filter(|(rank, _)| **rank == b);
                prop_assert_eq!(out.map(|(_, weight)| weight).collect::<Vec<_>>(), weights.clone());
                let (into, _) = to.weights.expect("weighted");
                let into = to.sources.iter().zip(into).filter(|(rank, _)| **rank == a);
                prop_assert_eq!(into.map(|(_, weight)| weight).collect::<Vec<_>>(), weights);
            }
        }
    }
}

#[test]
fn a_block_sent_to_one_side_of_a_ring_of_two_comes_from_the_other() {
    let ring = Cartesian::new(&[2], &[true], 2).expect("a ring");
    let of = Topology::Cartesian(ring).neighbours(0);
    let found: Vec<_> = of.sources.iter().map(|it| (it.rank, it.label)).collect();
    assert_eq!(found, [(Some(1), 1), (Some(1), 0)]);
    let found: Vec<_> = of
        .destinations
        .iter()
        .map(|it| (it.rank, it.label))
        .collect();
    assert_eq!(found, [(Some(1), 0), (Some(1), 1)]);
}

#[test]
fn given_dimensions_stay() {
    let balanced = |nodes, dims: &[i32]| {
        let mut dims = dims.to_vec();
        balance(nodes, &mut dims).map(|()| dims)
    };
    assert_eq!(balanced(6, &[0, 0]), Ok(vec![3, 2]));
    assert_eq!(balanced(7, &[0, 0]), Ok(vec![7, 1]));
    assert_eq!(balanced(6, &[0, 3, 0]), Ok(vec![2, 3, 1]));
    assert!(balanced(7, &[0, 3, 0]).is_err());
    assert!(balanced(6, &[2, 2]).is_err());
    assert_eq!(balanced(6, &[2, 3]), Ok(vec![2, 3]));
    assert!(balanced(6, &[-1, 0]).is_err());
    assert!(balanced(0, &[0]).is_err());
    assert_eq!(balanced(1, &[]), Ok(vec![]));
    assert!(balanced(2, &[]).is_err());
    // Many divisors, many dimensions, large factors.
    assert_eq!(balanced(735_134_400, &[0; 40]).map(|dims| dims[0]), Ok(17));
    assert_eq!(balanced(i32::MAX, &[0; 3]), Ok(vec![i32::MAX, 1, 1]));
}

#[test]
fn wrong_arguments_are_refused() {
    assert!(Cartesian::new(&[2, 3], &[false, true], 5).is_err());
    assert!(Cartesian::new(&[2, 0], &[false, true], 5).is_err());
    assert!(Cartesian::new(&[2], &[], 5).is_err());
    assert!(Cartesian::new(&[i32::MAX, i32::MAX], &[true, true], 5).is_err());
    assert_eq!(Cartesian::new(&[], &[], 5).map(|grid| grid.size()), Ok(1));
    assert!(Graph::new(&[1, 3, 2], &[1, 0, 2], 3).is_err());
    assert!(Graph::new(&[1, 2, 3], &[1, 0], 3).is_err());
    assert!(Graph::new(&[1, 2, 3], &[1, 0, 3], 3).is_err());
    assert!(Graph::new(&[1, 2, 3], &[1, 0, 2], 2).is_err());
    assert!(Adjacent::new(&[0], &[1, 2], None, 2).is_err());
    assert!(Adjacent::new(&[0], &[1], Some((&[1], &[])), 2).is_err());
    assert!(Adjacent::new(&[0], &[1], Some((&[1], &[-1])), 2).is_err());
}

#[test]
fn a_graph_has_the_neighbours_of_the_standards_example() {
    let graph = Graph::new(&[2, 3, 4, 6], &[1, 3, 0, 3, 0, 2], 5).expect("a graph");
    let neighbours: Vec<_> = (0..4)
        .map(|rank| graph.neighbours(rank).expect("a rank"))
        .collect();
    assert_eq!(neighbours, [&[1, 3][..], &[0], &[3], &[0, 2]]);
    assert!(
        graph.neighbours(4).is_err(),
        "a process outside of the graph"
    );
    let outside = Topology::Graph(graph).neighbours(4);
    assert_eq!(outside, Neighbours::default());
}
