//! Places on the earth, in degrees of latitude and longitude (WGS 84)

use super::Function;
use super::args::{Args, Shape};
use super::places;
use super::rows::In;
use super::shapes::{Corner, Place, Polygon, Ring, locate};
use crate::Diagnostic;
use crate::node::Node;
use crate::value::Value;
use std::sync::Arc;

/// The mean radius of the earth in metres.
const RADIUS: f64 = 6_371_008.8;

use Shape::{Float, Integer, Text};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "haversine",
        signature: "haversine(latitude1, longitude1, latitude2, longitude2) -> float64",
        doc: "The distance in metres between two places, along a great circle of a sphere of the earth's mean radius (6371008.8 m), which is right within 0.6 %. Latitudes outside -90 to 90, longitudes outside -180 to 180 and NaN make a bad row.",
        examples: &[
            ("round(haversine(52.52, 13.405, 48.8566, 2.3522) / 1000)", "877.0"),
            ("haversine(1, 2, 1, 2)", "0.0"),
            ("haversine(91, 0, 0, 0)", "error"),
        ],
        arity: (4, 4),
        bind: distance,
    },
    Function {
        name: "geoDistance",
        signature: "geoDistance(latitude1, longitude1, latitude2, longitude2) -> float64",
        doc: "The same as `haversine`.",
        examples: &[("round(geoDistance(0, 0, 0, 1))", "111195.0")],
        arity: (4, 4),
        bind: distance,
    },
    Function {
        name: "geoBearing",
        signature: "geoBearing(latitude1, longitude1, latitude2, longitude2) -> float64",
        doc: "The direction from the first place to the second along a great circle, in degrees from 0 (north) over 90 (east) up to 360. Bad rows as for `haversine`.",
        examples: &[("geoBearing(0, 0, 0, 1)", "90.0"), ("geoBearing(0, 0, 1, 0)", "0.0"), ("geoBearing(0, 0, 0, -1)", "270.0")],
        arity: (4, 4),
        bind: |mut args| {
            args.take(&[Float])?;
            Ok(args.into_float(|row| {
                let ((a, b), (c, d)) = (place(row, 0)?, place(row, 2)?);
                Ok::<_, String>(bearing((b, a), (d, c)))
            }))
        },
    },
    Function {
        name: "geohash",
        signature: "geohash(latitude, longitude, length?) -> string",
        doc: "The geohash of a place, of `length` characters (1 to 12, by default 9). Places and lengths out of range make a bad row.",
        examples: &[("geohash(57.64911, 10.40744, 11)", "'u4pruydqqvj'"), ("geohash(0, 0, 3)", "'s00'"), ("geohash(0, 0, 13)", "error")],
        arity: (2, 3),
        bind: |mut args| {
            args.take(&[Float, Float, Integer])?;
            Ok(args.into_text(|row, out: &mut String| {
                let (latitude, longitude) = place(row, 0)?;
                match row.int_or(2, 9) {
                    length @ 1..=12 => geohash(latitude, longitude, length as usize, out),
                    length => return Err(format!("`{length}` is not a length from 1 to 12")),
                }
                Ok(())
            }))
        },
    },
    Function {
        name: "pointInPolygon",
        signature: "pointInPolygon(latitude, longitude, polygon) -> bool",
        doc: "Whether a place lies within a polygon in WKT, `POLYGON ((longitude latitude, …), (a hole), …)` or `MULTIPOLYGON`, or in GeoJSON, with straight sides on the map; a side counts as inside. No side may cross the 180th meridian. What is not such a polygon makes a bad row, or a mistake if it is a constant, as it should be for speed; places out of range make a bad row.",
        examples: &[
            ("pointInPolygon(1, 1, 'POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))')", "true"),
            ("pointInPolygon(5, 1, 'POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))')", "false"),
            ("pointInPolygon(2, 2, 'POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (1 1, 3 1, 3 3, 1 3, 1 1))')", "false"),
            (r#"pointInPolygon(1, 1, '{"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [4, 4], [0, 0]]]}')"#, "true"),
            ("pointInPolygon(11, 11, 'MULTIPOLYGON (((0 0, 4 0, 4 4, 0 0)), ((10 10, 12 10, 12 12, 10 12, 10 10)))')", "true"),
        ],
        arity: (3, 3),
        bind: |mut args| {
            args.take(&[Float, Float, Text])?;
            let area = Area::of(&mut args, 2)?;
            Ok(args.into_bool(move |row| {
                let (latitude, longitude) = place(row, 0)?;
                area.with(row, |area| inside(area, longitude, latitude))
            }))
        },
    },
    Function {
        name: "geoWithin",
        signature: "geoWithin(polygon, latitude, longitude) -> bool",
        doc: "The same as `pointInPolygon`, the polygon first.",
        examples: &[("geoWithin('POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))', 1, 1)", "true")],
        arity: (3, 3),
        bind: |mut args| {
            args.take(&[Text, Float])?;
            let area = Area::of(&mut args, 0)?;
            Ok(args.into_bool(move |row| {
                let (latitude, longitude) = place(row, 1)?;
                area.with(row, |area| inside(area, longitude, latitude))
            }))
        },
    },
    Function {
        name: "geoWithinVolume",
        signature: "geoWithinVolume(polygon, latitude, longitude, altitude, lowest, highest) -> bool",
        doc: "Whether a place lies within a polygon, as for `pointInPolygon`, and its altitude between two others, both included.",
        examples: &[
            ("geoWithinVolume('POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))', 1, 1, 6000, 5000, 12000)", "true"),
            ("geoWithinVolume('POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))', 1, 1, 100, 5000, 12000)", "false"),
        ],
        arity: (6, 6),
        bind: |mut args| {
            args.take(&[Text, Float])?;
            let area = Area::of(&mut args, 0)?;
            Ok(args.into_bool(move |row| {
                let (latitude, longitude) = place(row, 1)?;
                let between = row.float(4) <= row.float(3) && row.float(3) <= row.float(5);
                area.with(row, |area| inside(area, longitude, latitude) && between)
            }))
        },
    },
];

/// A latitude and the longitude behind it.
fn place(row: In<'_>, at: usize) -> Result<(f64, f64), String> {
    let (latitude, longitude) = (row.float(at), row.float(at + 1));
    if (-90.0..=90.0).contains(&latitude) && (-180.0..=180.0).contains(&longitude) {
        return Ok((latitude, longitude));
    }
    Err(format!("latitude {latitude:?}, longitude {longitude:?} is no place on the earth"))
}

fn distance(mut args: Args<'_>) -> Result<Node, Diagnostic> {
    args.take(&[Float])?;
    Ok(args.into_float(|row| {
        let ((a, b), (c, d)) = (place(row, 0)?, place(row, 2)?);
        Ok::<_, String>(great_circle((b, a), (d, c)))
    }))
}

/// The metres between two places, on a sphere.
pub(super) fn great_circle(from: Corner, to: Corner) -> f64 {
    let half = |from: f64, to: f64| ((to - from).to_radians() / 2.0).sin().powi(2);
    let chord = half(from.1, to.1) + from.1.to_radians().cos() * to.1.to_radians().cos() * half(from.0, to.0);
    2.0 * RADIUS * chord.sqrt().min(1.0).asin()
}

/// The direction in which a great circle leaves a place for another, in degrees from 0 up to 360.
pub(super) fn bearing(from: Corner, to: Corner) -> f64 {
    let (a, c, turn) = (from.1.to_radians(), to.1.to_radians(), (to.0 - from.0).to_radians());
    let bearing = (turn.sin() * c.cos()).atan2(a.cos() * c.sin() - a.sin() * c.cos() * turn.cos());
    (bearing.to_degrees() + 360.0) % 360.0
}

fn geohash(latitude: f64, longitude: f64, length: usize, out: &mut String) {
    const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
    let mut sides = [(longitude, -180.0, 180.0), (latitude, -90.0, 90.0)];
    let mut at = 0;
    for _ in 0..length {
        let mut letter = 0;
        for _ in 0..5 {
            let (value, low, high) = &mut sides[at];
            let middle = (*low + *high) / 2.0;
            letter <<= 1;
            if *value >= middle {
                letter |= 1;
                *low = middle;
            } else {
                *high = middle;
            }
            at = 1 - at;
        }
        out.push(char::from(LETTERS[letter]));
    }
}

/// The rings of all its polygons: holes turn the answer over, as another polygon beside them does not.
type Rings = Vec<Ring>;

/// A polygon that is a constant, or another for each row.
#[derive(Clone)]
enum Area {
    Constant(Arc<Rings>),
    Column(usize),
}

impl Area {
    fn of(args: &mut Args<'_>, at: usize) -> Result<Area, Diagnostic> {
        match args.nodes[at].as_literal() {
            Some(Value::Text(text)) => match rings(text) {
                Some(rings) => Ok(Area::Constant(Arc::new(rings))),
                None => Err(args.refuse(at, "this is not a polygon, write `POLYGON ((longitude latitude, …))` or GeoJSON")),
            },
            _ => Ok(Area::Column(at)),
        }
    }

    fn with<T>(&self, row: In<'_>, then: impl FnOnce(&Rings) -> T) -> Result<T, String> {
        match self {
            Area::Constant(rings) => Ok(then(rings)),
            Area::Column(at) => match rings(row.text(*at)) {
                Some(rings) => Ok(then(&rings)),
                None => Err("not a polygon in WKT or GeoJSON".to_string()),
            },
        }
    }
}

/// Reads the rings of WKT, or of a polygon or multipolygon in GeoJSON.
fn rings(text: &str) -> Option<Rings> {
    if text.trim_start().starts_with('{') {
        let found = places::geo_json(text).ok()?;
        let areas = !found.polygons.is_empty() && found.points.is_empty() && found.lines.is_empty();
        return areas.then(|| found.polygons.into_iter().flatten().collect());
    }
    Some(polygons(text)?.into_iter().flatten().collect())
}

/// Reads the polygons of WKT.
pub(super) fn polygons(text: &str) -> Option<Vec<Polygon>> {
    let text = text.trim();
    let open = text.find('(')?;
    let name = text[..open].trim();
    let multi = name.eq_ignore_ascii_case("MULTIPOLYGON");
    if !multi && !name.eq_ignore_ascii_case("POLYGON") {
        return None;
    }
    let depth = if multi { 3 } else { 2 };
    let (mut level, mut polygons, mut ring_start) = (0, Vec::<Polygon>::new(), 0);
    let mut closed = false;
    for (at, byte) in text.bytes().enumerate().skip(open) {
        match byte {
            _ if closed => return None,
            b'(' => {
                level += 1;
                ring_start = at + 1;
                if level > depth {
                    return None;
                }
                if level == depth - 1 {
                    polygons.push(Polygon::new());
                }
            }
            b')' => {
                if level == depth {
                    polygons.last_mut()?.push(ring(text.get(ring_start..at)?)?);
                }
                level -= 1;
                closed = level == 0;
            }
            // Between rings and polygons stand commas alone.
            b',' | b' ' | b'\n' | b'\r' | b'\t' => {}
            _ if level != depth => return None,
            _ => {}
        }
    }
    (closed && polygons.iter().flatten().next().is_some()).then_some(polygons)
}

/// The corners of a ring, which is closed: its first corner is its last.
fn ring(text: &str) -> Option<Ring> {
    let corners = text.split(',').map(|corner| {
        let mut numbers = corner.split_ascii_whitespace();
        let mut number = || numbers.next()?.parse::<f64>().ok().filter(|number| number.is_finite());
        let corner = (number()?, number()?);
        // A third number is an altitude.
        let rest = numbers.count();
        (rest <= 1).then_some(corner)
    });
    let corners = corners.collect::<Option<Ring>>()?;
    (corners.len() >= 4 && corners.first() == corners.last()).then_some(corners)
}

/// Whether a point lies within an odd number of rings, or on a side of one.
fn inside(rings: &Rings, x: f64, y: f64) -> bool {
    locate(rings, (x, y)) != Place::Outside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_polygon_is_refused() {
        for wrong in [
            "",
            "POLYGON",
            "POLYGON (",
            "POLYGON ((0 0, 1 1, 0 0))",
            "POLYGON ((0 0, 1 0, 1 1, 0 1))",
            "POLYGON ((0 0, 1 0, 1 1, 0 0)) x",
            "POLYGON (((0 0, 1 0, 1 1, 0 0)))",
            "POINT (0 0)",
            "POLYGON ((0 0, 1 a, 1 1, 0 0))",
            "POLYGON ((0 0, NaN 0, 1 1, 0 0))",
            "POLYGON ((0, 1, 2, 0))",
            "))))((((",
        ] {
            assert!(rings(wrong).is_none(), "{wrong}");
        }
        assert!(rings(" polygon((0 0,1 0,1 1,0 0)) ").is_some());
    }

    #[test]
    fn corners_and_sides_are_inside() {
        let square = rings("POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))").unwrap();
        for (x, y) in [(0.0, 0.0), (4.0, 4.0), (2.0, 0.0), (0.0, 2.0), (4.0, 1.0), (2.0, 4.0)] {
            assert!(inside(&square, x, y), "{x} {y}");
        }
        for (x, y) in [(-1.0, 0.0), (5.0, 4.0), (2.0, 4.1), (4.1, 0.0), (-0.1, 4.0)] {
            assert!(!inside(&square, x, y), "{x} {y}");
        }
    }
}
