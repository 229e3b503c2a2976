//! Geometries on the map, and how two of them lie: straight sides in degrees of longitude and latitude, nothing across the 180th
//! meridian.

/// Longitude and latitude.
pub(super) type Corner = (f64, f64);
/// Corners of which the last is the first again.
pub(super) type Ring = Vec<Corner>;
/// The outer ring and the holes.
pub(super) type Polygon = Vec<Ring>;

/// Steps that one comparison may take: what needs more is a bad row, not a task that stands still.
const STEPS: usize = 50_000_000;
/// Parts of a side shorter than this share of it are the rounding of an intersection.
const TOO_SHORT: f64 = 1e-12;

/// Points, lines and polygons, each of any number.
#[derive(Debug, Default)]
pub(super) struct Geometry {
    pub(super) points: Vec<Corner>,
    pub(super) lines: Vec<Vec<Corner>>,
    pub(super) polygons: Vec<Polygon>,
    sides: Vec<Side>,
    bounds: Option<Bounds>,
}

/// A straight piece of a line, or of a ring of the polygon with this place.
#[derive(Debug, Clone, Copy)]
struct Side {
    from: Corner,
    to: Corner,
    polygon: Option<usize>,
    bounds: Bounds,
}

#[derive(Debug, Clone, Copy)]
struct Bounds {
    low: Corner,
    high: Corner,
}

/// Where a point lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Outside,
    Edge,
    Inside,
}

impl Bounds {
    fn of(corners: impl IntoIterator<Item = Corner>) -> Option<Bounds> {
        corners.into_iter().map(|corner| Bounds { low: corner, high: corner }).reduce(|a, b| Bounds {
            low: (a.low.0.min(b.low.0), a.low.1.min(b.low.1)),
            high: (a.high.0.max(b.high.0), a.high.1.max(b.high.1)),
        })
    }

    fn meets(&self, other: &Bounds) -> bool {
        self.low.0 <= other.high.0 && other.low.0 <= self.high.0 && self.low.1 <= other.high.1 && other.low.1 <= self.high.1
    }

    fn encloses(&self, other: &Bounds) -> bool {
        self.low.0 <= other.low.0 && other.high.0 <= self.high.0 && self.low.1 <= other.low.1 && other.high.1 <= self.high.1
    }
}

impl Geometry {
    pub(super) fn of_point(point: Corner) -> Geometry {
        Geometry { points: vec![point], ..Geometry::default() }.ready()
    }

    pub(super) fn of_polygons(polygons: Vec<Polygon>) -> Geometry {
        Geometry { polygons, ..Geometry::default() }.ready()
    }

    /// To be called when its parts are complete.
    pub(super) fn ready(mut self) -> Geometry {
        let mut sides = Vec::new();
        let mut add = |corners: &[Corner], polygon| {
            for pair in corners.windows(2) {
                if let Some(bounds) = Bounds::of([pair[0], pair[1]]) {
                    sides.push(Side { from: pair[0], to: pair[1], polygon, bounds });
                }
            }
        };
        self.lines.iter().for_each(|line| add(line, None));
        for (at, polygon) in self.polygons.iter().enumerate() {
            polygon.iter().for_each(|ring| add(ring, Some(at)));
        }
        let rings = self.polygons.iter().flatten();
        self.bounds = Bounds::of(self.points.iter().chain(self.lines.iter().flatten()).chain(rings.flatten()).copied());
        self.sides = sides;
        self
    }

    fn place_of(&self, point: Corner) -> Place {
        let mut edge = false;
        for polygon in &self.polygons {
            match locate(polygon, point) {
                Place::Inside => return Place::Inside,
                Place::Edge => edge = true,
                Place::Outside => {}
            }
        }
        for line in &self.lines {
            if line.windows(2).any(|pair| lies_on(pair[0], pair[1], point)) {
                // The ends of a line are its edge, unless it ends where it began.
                let (first, last) = (line.first(), line.last());
                if first == last || (first != Some(&point) && last != Some(&point)) {
                    return Place::Inside;
                }
                edge = true;
            }
        }
        match (self.points.contains(&point), edge) {
            (true, _) => Place::Inside,
            (false, true) => Place::Edge,
            (false, false) => Place::Outside,
        }
    }

    /// How much there is to look at for one point.
    fn size(&self) -> usize {
        self.points.len() + self.sides.len()
    }
}

/// Counts the steps of a comparison.
struct Budget(usize);

impl Budget {
    fn spend(&mut self, steps: usize) -> Result<(), String> {
        match self.0.checked_sub(steps) {
            Some(left) => {
                self.0 = left;
                Ok(())
            }
            None => Err("the geometries have too many corners to be compared".to_string()),
        }
    }
}

/// Twice the area of the triangle: positive where `point` is on the left of the way from one corner to the other.
fn turn(from: Corner, to: Corner, point: Corner) -> f64 {
    (to.0 - from.0) * (point.1 - from.1) - (to.1 - from.1) * (point.0 - from.0)
}

fn lies_on(from: Corner, to: Corner, point: Corner) -> bool {
    let within = |a: f64, b: f64, value: f64| a.min(b) <= value && value <= a.max(b);
    turn(from, to, point) == 0.0 && within(from.0, to.0, point.0) && within(from.1, to.1, point.1)
}

/// Whether a point lies within an odd number of rings, or on a side of one.
pub(super) fn locate(rings: &[Ring], point: Corner) -> Place {
    let mut inside = false;
    for ring in rings {
        for side in ring.windows(2) {
            let (from, to) = (side[0], side[1]);
            if lies_on(from, to, point) {
                return Place::Edge;
            }
            if (from.1 > point.1) != (to.1 > point.1) && (turn(from, to, point) > 0.0) == (to.1 > from.1) {
                inside = !inside;
            }
        }
    }
    if inside { Place::Inside } else { Place::Outside }
}

impl Side {
    /// Whether the other's ends are not on one side of this one.
    fn divides(&self, other: &Side) -> bool {
        let (a, b) = (turn(self.from, self.to, other.from), turn(self.from, self.to, other.to));
        !(a > 0.0 && b > 0.0 || a < 0.0 && b < 0.0)
    }

    fn meets(&self, other: &Side) -> bool {
        self.bounds.meets(&other.bounds) && self.divides(other) && other.divides(self)
    }

    /// The point at a share of the way.
    fn at(&self, share: f64) -> Corner {
        (self.from.0 + (self.to.0 - self.from.0) * share, self.from.1 + (self.to.1 - self.from.1) * share)
    }

    /// The share of the way at which a point of its line lies.
    fn share(&self, point: Corner) -> f64 {
        let (width, height) = (self.to.0 - self.from.0, self.to.1 - self.from.1);
        if width.abs() >= height.abs() { (point.0 - self.from.0) / width } else { (point.1 - self.from.1) / height }
    }
}

/// A side cut wherever others meet it.
struct Pieces {
    cuts: Vec<f64>,
    /// Where another side lies along it, and of which polygon that is a side.
    shared: Vec<(f64, f64, Option<usize>)>,
}

impl Pieces {
    fn of<'a>(side: &Side, others: impl Iterator<Item = &'a Side>) -> Pieces {
        let mut pieces = Pieces { cuts: vec![0.0, 1.0], shared: Vec::new() };
        for other in others.filter(|other| side.meets(other)) {
            let (from, to) = (turn(other.from, other.to, side.from), turn(other.from, other.to, side.to));
            if from != to && other.from != other.to {
                pieces.cuts.push((from / (from - to)).clamp(0.0, 1.0));
                continue;
            }
            let (a, b) = (side.share(other.from).clamp(0.0, 1.0), side.share(other.to).clamp(0.0, 1.0));
            pieces.cuts.extend([a, b]);
            pieces.shared.push((a.min(b), a.max(b), other.polygon));
        }
        pieces.cuts.sort_by(f64::total_cmp);
        pieces
    }

    /// The middles of the pieces, as shares of the way.
    fn middles(&self) -> impl Iterator<Item = f64> {
        self.cuts.windows(2).filter(|cut| cut[1] - cut[0] > TOO_SHORT).map(|cut| (cut[0] + cut[1]) / 2.0)
    }

    fn along(&self, share: f64) -> impl Iterator<Item = Option<usize>> {
        self.shared.iter().filter(move |(from, to, _)| *from <= share && share <= *to).map(|(_, _, polygon)| *polygon)
    }
}

/// Whether two geometries have a point in common, on an edge or inside.
pub(super) fn intersect(a: &Geometry, b: &Geometry) -> Result<bool, String> {
    let (Some(bounds), Some(others)) = (&a.bounds, &b.bounds) else { return Ok(false) };
    if !bounds.meets(others) {
        return Ok(false);
    }
    let mut budget = Budget(STEPS);
    for (one, other) in [(a, b), (b, a)] {
        // Without a crossing, a line or polygon that touches the other is inside of it with all its corners.
        let starts = one.lines.iter().chain(one.polygons.iter().filter_map(|rings| rings.first())).filter_map(|corners| corners.first());
        for point in one.points.iter().chain(starts) {
            budget.spend(other.size())?;
            if other.place_of(*point) != Place::Outside {
                return Ok(true);
            }
        }
    }
    for side in a.sides.iter().filter(|side| side.bounds.meets(others)) {
        budget.spend(b.sides.len())?;
        if b.sides.iter().any(|other| side.meets(other)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether every point of `b` is in `a`, and one of them not only on its edge.
pub(super) fn contains(a: &Geometry, b: &Geometry) -> Result<bool, String> {
    let (Some(bounds), Some(others)) = (&a.bounds, &b.bounds) else { return Ok(false) };
    if !bounds.encloses(others) {
        return Ok(false);
    }
    let mut budget = Budget(STEPS);
    let mut strictly = false;
    for point in &b.points {
        budget.spend(a.size())?;
        match a.place_of(*point) {
            Place::Outside => return Ok(false),
            Place::Edge => {}
            Place::Inside => strictly = true,
        }
    }
    for side in &b.sides {
        match covered(a, side, &mut budget)? {
            Place::Outside => return Ok(false),
            Place::Edge => {}
            Place::Inside => strictly = true,
        }
    }
    for polygon in &b.polygons {
        if !filled(a, polygon, &mut budget)? {
            return Ok(false);
        }
        strictly = true;
    }
    Ok(strictly)
}

/// Whether a line's or a ring's side lies in a geometry, in a ring's case in its polygons: inside if one piece of it does.
fn covered(a: &Geometry, side: &Side, budget: &mut Budget) -> Result<Place, String> {
    budget.spend(a.size())?;
    let lines = side.polygon.is_none();
    if side.from == side.to {
        return Ok(a.place_of(side.from));
    }
    let pieces = Pieces::of(side, a.sides.iter().filter(|other| lines || other.polygon.is_some()));
    let mut place = Place::Edge;
    for middle in pieces.middles() {
        budget.spend(a.size())?;
        let found = a.polygons.iter().map(|polygon| locate(polygon, side.at(middle)));
        let mut edge = false;
        if found.inspect(|place| edge |= *place == Place::Edge).any(|place| place == Place::Inside) {
            place = Place::Inside;
            continue;
        }
        match pieces.along(middle).fold(None, |best, polygon| Some(best == Some(true) || polygon.is_none())) {
            Some(true) => place = Place::Inside,
            Some(false) => {}
            None if edge => {}
            None => return Ok(Place::Outside),
        }
    }
    Ok(place)
}

/// Whether the inside of a polygon whose sides lie in `a` does so too: whether no hole of `a`, nor a gap between its polygons, is
/// in it.
fn filled(a: &Geometry, polygon: &Polygon, budget: &mut Budget) -> Result<bool, String> {
    // As lines, so that its sides are not taken for those of a polygon of `a`.
    let own = Geometry { lines: polygon.clone(), ..Geometry::default() }.ready();
    let Some(bounds) = own.bounds else { return Ok(false) };
    // Where no edge of `a` runs through its inside, one point speaks for all.
    budget.spend(a.size().saturating_add(own.size()))?;
    if !inner_point(polygon).is_some_and(|point| a.polygons.iter().any(|area| locate(area, point) != Place::Outside)) {
        return Ok(false);
    }
    for side in a.sides.iter().filter(|side| side.polygon.is_some() && side.from != side.to && side.bounds.meets(&bounds)) {
        budget.spend(a.size().saturating_add(own.size()))?;
        let pieces = Pieces::of(side, own.sides.iter().chain(a.sides.iter().filter(|other| other.polygon != side.polygon)));
        for middle in pieces.middles() {
            budget.spend(a.size().saturating_add(own.size()))?;
            let point = side.at(middle);
            if locate(polygon, point) != Place::Inside {
                continue;
            }
            // An edge between two polygons of `a` is no edge of `a`.
            let mut others = a.polygons.iter().enumerate().filter(|(at, _)| Some(*at) != side.polygon);
            if !others.any(|(at, other)| locate(other, point) != Place::Outside || pieces.along(middle).any(|shared| shared == Some(at))) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// A point inside of a polygon: the middle of the widest part of a line through it. None if it has no area.
fn inner_point(polygon: &Polygon) -> Option<Corner> {
    let mut heights: Vec<f64> = polygon.iter().flatten().map(|corner| corner.1).collect();
    heights.sort_by(f64::total_cmp);
    let gap = heights.windows(2).max_by(|a, b| (a[1] - a[0]).total_cmp(&(b[1] - b[0])))?;
    let height = gap[0] + (gap[1] - gap[0]) / 2.0;
    let mut crossings: Vec<f64> = polygon
        .iter()
        .flat_map(|ring| ring.windows(2))
        .filter(|side| (side[0].1 > height) != (side[1].1 > height))
        .map(|side| side[0].0 + (height - side[0].1) / (side[1].1 - side[0].1) * (side[1].0 - side[0].0))
        .collect();
    crossings.sort_by(f64::total_cmp);
    let widest = crossings.chunks_exact(2).max_by(|a, b| (a[1] - a[0]).total_cmp(&(b[1] - b[0])))?;
    let point = (widest[0] + (widest[1] - widest[0]) / 2.0, height);
    (locate(polygon, point) == Place::Inside).then_some(point)
}
