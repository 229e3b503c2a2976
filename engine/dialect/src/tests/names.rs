//! The names that another dialect of this kind has: each must be known here. And what the examples of those functions leave open:
//! geometry, the ellipsoid, nulls over columns.

use super::{batch, evaluate, rows};
use crate::value::{Value, build};
use crate::{bind, functions, types};
use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use arrow::datatypes::DataType;
use proptest::prelude::*;
use std::sync::Arc;

const NAMES: &str = "abs acos altitudeBetween arrayContains arrayJoin arrayMax arrayMin arrayReverse arraySum ascii asin atan atan2 \
    bearingDeg capitalize cbrt ceil chr clamp coalesce concat concatWs contains cos cosh dayOf dayOfWeekOf dayOfYear degToRad distance3dM \
    distinct ecefToGeodetic endsWith epochMs epochToIso exp factorial first floor gcd geoContains geoIntersects geoWithin geoWithinVolume \
    geodeticToEcef groundStrike haversineKm hourOf hypot indexOf isBoolean isNull isNumber isString last lcm left length ln log log10 \
    log2 lower max min minuteOf monthOf nullIf padEnd padStart pi pow radToDeg regexExtract regexMatch regexReplace repeat replace \
    reverse right round roundTo sign sin sinh split splitPart sqrt startsWith substr substring tan tanh toHex toNumber toString trim \
    trimEnd trimStart trunc typeOf upper yearOf";

#[test]
fn every_name_of_the_other_dialect_is_known() {
    let missing: Vec<&str> = NAMES.split_whitespace().filter(|name| functions().iter().all(|function| function.name != *name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(NAMES.split_whitespace().count(), 103);
}

fn texts(columns: &[(&'static str, &[Option<&str>])]) -> RecordBatch {
    batch(columns.iter().map(|(name, values)| (*name, Arc::new(values.iter().copied().collect::<StringArray>()) as ArrayRef)).collect())
}

fn floats(columns: &[(&'static str, f64)]) -> RecordBatch {
    batch(columns.iter().map(|(name, value)| (*name, Arc::new(Float64Array::from(vec![*value])) as ArrayRef)).collect())
}

/// The one row's text, its nulls and errors included.
fn one(expression: &str) -> String {
    rows(expression, &batch(Vec::new())).remove(0)
}

fn numbers(expression: &str, batch: &RecordBatch) -> Vec<f64> {
    let found = evaluate(expression, batch);
    assert!(found.bad.is_empty(), "{expression}: {:?}", found.bad);
    match Value::read(&found.values, 0) {
        Value::List(items) => items.iter().map(Value::float).collect(),
        value => vec![value.float()],
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn earth_centred_coordinates_lead_back(lon in -180.0..180.0f64, lat in -90.0..90.0f64, alt in -10_000.0..40_000_000.0f64) {
        for (lon, lat, alt) in [(lon, lat, alt), (lon, lat, 0.0), (0.0, 90.0, alt), (0.0, -90.0, alt), (180.0, 0.0, alt), (lon, lat / 1e9, alt)] {
            let place = floats(&[("lon", lon), ("lat", lat), ("alt", alt)]);
            let back = numbers("ecefToGeodetic(geodeticToEcef([lon, lat], alt))", &place);
            prop_assert!((back[1] - lat).abs() < 1e-9, "{:?} of {:?}", back, (lon, lat, alt));
            prop_assert!((back[2] - alt).abs() < 1e-6, "{:?} of {:?}", back, (lon, lat, alt));
            // A meridian is narrow near the pole.
            prop_assert!((back[0] - lon).abs() * lat.to_radians().cos() < 1e-9, "{:?} of {:?}", back, (lon, lat, alt));
        }
    }

    #[test]
    fn a_bearing_is_a_direction_and_a_distance_has_none(a in -180.0..180.0f64, b in -90.0..90.0f64, c in -180.0..180.0f64, d in -90.0..90.0f64) {
        let places = floats(&[("a", a), ("b", b), ("c", c), ("d", d)]);
        let bearing = numbers("bearingDeg([a, b], [c, d])", &places)[0];
        prop_assert!((0.0..360.0).contains(&bearing));
        let (there, back) = (numbers("haversineKm([a, b], [c, d])", &places)[0], numbers("haversineKm([c, d], [a, b])", &places)[0]);
        prop_assert!((there - back).abs() < 1e-6 && there <= 20_016.0);
        // A straight line is no longer than the way over the surface.
        prop_assert!(numbers("distance3dM([a, b], 0, [c, d], 0)", &places)[0] <= there * 1_000.0 * 1.01 + 1e-6);
    }

    #[test]
    fn a_ray_downwards_strikes_below_and_every_strike_is_in_sight(
        lon in -180.0..180.0f64, lat in -89.0..89.0f64, alt in 1.0..1_000_000.0f64, azimuth in 0.0..360.0f64, elevation in -90.0..-1.0f64,
    ) {
        let observer = floats(&[("lon", lon), ("lat", lat), ("alt", alt), ("az", azimuth), ("el", elevation)]);
        let below = rows("groundStrike([lon, lat], alt, az, -90)", &observer).remove(0);
        let strike: Vec<f64> = below.trim_matches('\'').split(',').map(|number| number.parse().unwrap()).collect();
        prop_assert!((strike[0] - lon).abs() < 1e-5 && (strike[1] - lat).abs() < 1e-5, "{} of {:?}", below, (lon, lat));
        // The line of sight has the length of the straight line to where it strikes, and rises from the horizon as it was told.
        let found = rows("groundStrike([lon, lat], alt, az, el)", &observer).remove(0);
        if found != "null" {
            let question = format!("distance3dM([lon, lat], alt, {found}, 0)");
            let length = numbers(&question, &observer)[0];
            prop_assert!(length >= alt - 1.0, "{} m of {:?}", length, (lon, lat, alt, azimuth, elevation));
            let horizon = (2.0 * 6_400_000.0 * alt + alt * alt).sqrt();
            prop_assert!(length <= horizon * 1.01 + 1.0, "{} m of {:?}", length, (lon, lat, alt, azimuth, elevation));
            let bearing = numbers(&format!("bearingDeg([lon, lat], {found})"), &observer)[0];
            let turned = (bearing - azimuth).abs().min(360.0 - (bearing - azimuth).abs());
            if length * elevation.to_radians().cos() > 10_000.0 && lat.abs() < 80.0 {
                prop_assert!(turned < 1.0, "{} is not {}: {:?}", bearing, azimuth, (lon, lat, alt, elevation));
            }
        }
    }
}

#[test]
fn rays_meet_the_ground_or_miss_it() {
    assert_eq!(one("groundStrike('0,0', 1000, 0, 0)"), "null");
    assert_eq!(one("groundStrike('0,0', 1000, 0, 90)"), "null");
    // The horizon of 1 km lies about 1.01 degrees below the level.
    assert_eq!(one("groundStrike('0,0', 1000, 90, -1)"), "null");
    assert_ne!(one("groundStrike('0,0', 1000, 90, -1.1)"), "null");
    assert_eq!(one("groundStrike('0,0', 0, 90, 45)"), "'0,0'");
    assert_eq!(one("groundStrike('179.9999,0', 100000, 90, -45) == null"), "false");
    assert!(one("groundStrike('179.9999,0', 100000, 90, -45)").starts_with("'-179."));
    assert_eq!(one("groundStrike('10,90', 5000, 0, -90)"), "'10,90'");
    assert_eq!(one("groundStrike('0,0', 0.000000001, 0, -90)"), "'0,0'");
}

const SQUARE: &str = "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))";
const RING: &str = "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (1 1, 3 1, 3 3, 1 3, 1 1))";
const HOLE: &str = "POLYGON ((1 1, 3 1, 3 3, 1 3, 1 1))";
const PAIR: &str = "MULTIPOLYGON (((0 0, 2 0, 2 4, 0 4, 0 0)), ((2 0, 4 0, 4 4, 2 4, 2 0)))";
const APART: &str = "MULTIPOLYGON (((0 0, 1 0, 1 4, 0 4, 0 0)), ((3 0, 4 0, 4 4, 3 4, 3 0)))";
const ACROSS: &str = r#"{"type": "LineString", "coordinates": [[1, 2], [3, 2]]}"#;
const ALONG: &str = r#"{"type": "LineString", "coordinates": [[1, 0], [3, 0]]}"#;
const BEYOND: &str = r#"{"type": "Feature", "geometry": {"type": "LineString", "coordinates": [[1, 2], [5, 2]]}}"#;
const CORNERS: &str = r#"{"type": "MultiPoint", "coordinates": [[0, 0], [4, 4, 100]]}"#;
const MIXED: &str = r#"{"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": {"type": "GeometryCollection", "geometries": [{"type": "Point", "coordinates": [0, 0]}, {"type": "MultiLineString", "coordinates": [[[0, 0], [1, 1]], [[2, 2], [3, 3]]]}]}}, {"type": "Feature", "geometry": null}]}"#;

#[test]
fn geometries_contain_what_lies_in_them() {
    let cases = [
        (SQUARE, SQUARE, true, true),
        (SQUARE, HOLE, true, true),
        (HOLE, SQUARE, false, true),
        (RING, HOLE, false, true),
        (RING, SQUARE, false, true),
        (SQUARE, RING, true, true),
        (RING, "2,2", false, false),
        (RING, "1,2", false, true),
        (RING, "0.5,2", true, true),
        (SQUARE, PAIR, true, true),
        (PAIR, SQUARE, true, true),
        (PAIR, HOLE, true, true),
        (PAIR, ACROSS, true, true),
        (APART, HOLE, false, true),
        (APART, SQUARE, false, true),
        (APART, ACROSS, false, true),
        (SQUARE, ACROSS, true, true),
        (RING, ACROSS, false, true),
        (SQUARE, ALONG, false, true),
        (ALONG, ALONG, true, true),
        (ALONG, "2,0", true, true),
        (ALONG, "1,0", false, true),
        (ALONG, SQUARE, false, true),
        (SQUARE, BEYOND, false, true),
        (SQUARE, CORNERS, false, true),
        (SQUARE, MIXED, true, true),
        (MIXED, "0,0", true, true),
        (MIXED, "1.5,1.5", false, false),
        ("2,2", "2,2", true, true),
        (SQUARE, "POLYGON ((4 0, 6 0, 6 4, 4 4, 4 0))", false, true),
        (SQUARE, "POLYGON ((5 0, 6 0, 6 4, 5 4, 5 0))", false, false),
        (SQUARE, "POLYGON ((0 0, 8 0, 8 8, 0 0))", false, true),
    ];
    for (a, b, contains, intersects) in cases {
        let both = texts(&[("a", &[Some(a)]), ("b", &[Some(b)])]);
        assert_eq!(rows("geoContains(a, b)", &both), [contains.to_string()], "{a} contains {b}");
        assert_eq!(rows("geoIntersects(a, b)", &both), [intersects.to_string()], "{a} meets {b}");
        assert_eq!(rows("geoIntersects(b, a)", &both), [intersects.to_string()], "{b} meets {a}");
        assert_eq!(rows(&format!("geoContains('{a}', b)"), &both), [contains.to_string()], "{a}, a constant, contains {b}");
    }
}

#[test]
fn what_is_no_geometry_costs_its_row() {
    let wrong = [
        "",
        "1",
        "1,2,3,4",
        "181,0",
        "0,-91",
        "NaN,0",
        "inf,0",
        "1;2",
        "POINT",
        "POLYGON ((0 0, 200 0, 1 1, 0 0))",
        "{",
        "{}",
        r#"{"type": "Point"}"#,
        r#"{"type": "Point", "coordinates": [1]}"#,
        r#"{"type": "Point", "coordinates": ["1", 2]}"#,
        r#"{"type": "Point", "coordinates": [0, 91]}"#,
        r#"{"type": "LineString", "coordinates": [[0, 0]]}"#,
        r#"{"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1]]]}"#,
        r#"{"type": "Circle", "coordinates": [0, 0]}"#,
        r#"{"type": "FeatureCollection", "features": {}}"#,
        r#"{"type": "Feature"}"#,
    ];
    for text in wrong {
        let column = texts(&[("s", &[Some(text), None, Some("1,1")])]);
        let expected = if text == r#"{"type": "Feature"}"# { "false" } else { "bad" };
        assert_eq!(rows("geoContains(s, '1,1')", &column), [expected, "null", "true"], "{text}");
        assert_eq!(rows("haversineKm(s, '1,1')", &column), ["bad", "null", "0.0"], "{text}");
    }
    let deep = format!("{}{}", r#"{"type":"GeometryCollection","geometries":["#.repeat(10_000), "]}".repeat(10_000));
    assert_eq!(rows("geoIntersects(s, s)", &texts(&[("s", &[Some(&deep)])])), ["bad"]);
    let mistake = bind("geoContains('somewhere', s)", &texts(&[("s", &[None])]).schema()).unwrap_err();
    assert!(mistake.message.starts_with("this always fails: `somewhere` is no"), "{mistake}");
}

#[test]
fn geometries_of_too_many_corners_end_at_a_limit() {
    let zigzag: Vec<String> = (0..8_000).map(|at| format!("[{}, {}]", f64::from(at) / 100.0, at % 2)).collect();
    let line = format!(r#"{{"type": "LineString", "coordinates": [{}]}}"#, zigzag.join(","));
    // It crosses the first side, `above` none.
    let flatter = line.replace(", 1]", ", 0.6]").replace(", 0]", ", 0.5]");
    let above = line.replace(", 1]", ", 3]").replace(", 0]", ", 2]").replace("[0, 2]", "[0, 0.9]");
    let both = texts(&[("a", &[Some(&line)]), ("b", &[Some(&flatter)]), ("c", &[Some(&above)])]);
    assert_eq!(rows("geoIntersects(a, b)", &both), ["true"]);
    assert_eq!(evaluate("geoIntersects(a, c)", &both).bad.len(), 1);
}

#[test]
fn points_are_read_from_lists_with_nulls() {
    let list = |items: &[Option<f64>]| Value::List(items.iter().map(|item| item.map_or(Value::Null, Value::Float)).collect());
    let lists = [
        Value::Null,
        list(&[Some(0.0), Some(0.0)]),
        list(&[Some(0.0), Some(0.0), Some(7.0)]),
        list(&[Some(0.0), Some(0.0), None]),
        list(&[None, Some(0.0)]),
        list(&[Some(0.0)]),
        list(&[Some(0.0), Some(0.0), Some(0.0), Some(0.0)]),
        list(&[Some(0.0), Some(0.0), Some(f64::NAN)]),
        list(&[]),
    ];
    let points = batch(vec![("p", build(&types::list_of(DataType::Float64), &lists))]).slice(1, 8);
    assert_eq!(rows("haversineKm(p, [0, 0])", &points), ["0.0", "0.0", "0.0", "null", "bad", "bad", "bad", "bad"]);
    assert_eq!(rows("distance3dM(p, null, '0,0', 0)", &points), ["0.0", "7.0", "0.0", "null", "bad", "bad", "bad", "bad"]);
    assert_eq!(rows("distance3dM(p, 2, '0,0', 0)", &points)[..3], ["2.0", "2.0", "2.0"]);
    assert_eq!(rows("ecefToGeodetic(p)", &points), ["bad", "bad", "null", "bad", "bad", "bad", "bad", "bad"]);
    assert_eq!(rows("geodeticToEcef(p, 0)[0]", &points)[..4], ["6378137.0", "6378137.0", "6378137.0", "null"]);
}

#[test]
fn nulls_in_columns_are_skipped_or_kept_as_the_manual_says() {
    let some = texts(&[("a", &[Some("x"), None, None]), ("b", &[Some("y"), Some("y"), None]), ("s", &[Some("-"), Some("-"), None])]);
    assert_eq!(rows("concatWs(s, a, b, a)", &some), ["'x-y-x'", "'y'", "null"]);
    assert_eq!(rows("arrayContains([a, 'q'], b)", &some), ["false", "false", "true"]);
    assert_eq!(rows("arrayContains([a, b], null)", &some), ["false", "true", "true"]);
    assert_eq!(rows("isString(a)", &some), ["true", "false", "false"]);
    assert_eq!(rows("isNumber(a)", &some), ["false", "false", "false"]);
    assert_eq!(rows("isNumber(length(a))", &some), ["true", "false", "false"]);
}

#[test]
fn joined_texts_end_at_a_limit() {
    let long = "a".repeat(1 << 20);
    let one = texts(&[("s", &[Some(&long), Some("a")])]);
    for expression in ["arrayJoin(['', '', s, s, s, s, s, s, s, s, s, s, s], s)", "join(map(range(1, 20), x -> ''), s)"] {
        let found = evaluate(expression, &one);
        assert_eq!(found.bad, [(0, "the result would be longer than 16 MiB".to_string())], "{expression}");
    }
    assert_eq!(evaluate("concatWs(s, s, s, s, s, s, s, s, s)", &one).bad.len(), 0);
}

#[test]
fn a_moment_needs_a_zone() {
    let some = texts(&[(
        "t",
        &[Some("1970-01-01T00:00:00Z"), Some("1970-01-01 01:00:00.5+01:00"), Some("1970-01-01"), Some("1970-01-01T00:00"), Some("x"), None],
    )]);
    assert_eq!(rows("epochMs(t)", &some), ["0", "500", "bad", "bad", "bad", "null"]);
}
