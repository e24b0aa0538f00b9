"""A folder of photos: near-duplicates, clusters, and a map on which similar photos are neighbours.

    pip install "qkv[sklearn]" umap-learn matplotlib
    python photo_map.py facebook/dinov2-small photos/ -o map.png

Each photo becomes a vector (qkv), similar vectors are grouped (scikit-learn), and two numbers for each that keep
neighbours together (UMAP) are its place on the map.
"""

import argparse

import numpy as np
import PIL.Image
from sklearn.cluster import HDBSCAN
from sklearn.neighbors import NearestNeighbors

import qkv
from qkv.sklearn import ImageEmbedder


def near_duplicates(vectors, similarity):
    """Groups of indices whose vectors, [photos, width] of length 1, are joined by at least this cosine."""
    from scipy.sparse.csgraph import connected_components

    within = NearestNeighbors(radius=1 - similarity, metric="cosine").fit(vectors).radius_neighbors_graph()
    _, group = connected_components(within, directed=False)
    groups = [np.flatnonzero(group == one) for one in np.flatnonzero(np.bincount(group) > 1)]
    return sorted(groups, key=len, reverse=True)


def draw(places, paths, clusters, output, side=32):
    """The map: each photo at its place [photos, 2], framed in the colour of its cluster (-1: of none, grey)."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt
    from matplotlib.offsetbox import AnnotationBbox, OffsetImage

    figure, axes = plt.subplots(figsize=(8, 8), layout="tight")
    axes.scatter(*places.T, s=0)
    colours = plt.colormaps["tab20"]
    for place, path, cluster in zip(places, paths, clusters):
        with PIL.Image.open(path) as photo:
            small = photo.convert("RGB")
            small.thumbnail((side, side))
        frame = {"edgecolor": "0.7" if cluster < 0 else colours(cluster % 20), "linewidth": 1.5}
        picture = OffsetImage(np.asarray(small), zoom=20 / side)
        axes.add_artist(AnnotationBbox(picture, place, pad=0.1, bboxprops=frame))
    axes.axis("off")
    figure.savefig(output, dpi=100)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("model", help="what qkv.load takes")
    options.add_argument("folder", help="with the photos")
    options.add_argument("-o", "--output", default="map.png", help="the picture (default: %(default)s)")
    options.add_argument("--similarity", type=float, default=0.98, help="of near-duplicates, cosine (default: 0.98)")
    options.add_argument("--cluster", type=int, default=10, help="least photos of a cluster (default: %(default)s)")
    given = options.parse_args()

    paths = qkv.find_images(given.folder)
    vectors = ImageEmbedder(given.model, normalize=True, on_error="nan").transform(paths)
    read = ~np.isnan(vectors).any(axis=1)
    paths, vectors = [path for path, good in zip(paths, read) if good], vectors[read]
    print(f"{len(paths)} photos, vectors of {vectors.shape[1]} numbers; {(~read).sum()} files could not be read")

    groups = near_duplicates(vectors, given.similarity)
    print(f"{len(groups)} groups of near-duplicates:")
    for group in groups:
        print("  ", *(paths[i] for i in group))

    if len(paths) < 15:
        raise SystemExit("clusters and a map need 15 photos or more")
    from umap import UMAP

    # Clusters of a few dimensions: in hundreds, all distances are alike. The map has two.
    settings = {"metric": "cosine", "random_state": 0, "n_jobs": 1}
    reduced = UMAP(n_components=10, min_dist=0, **settings).fit_transform(vectors)
    clusters = HDBSCAN(min_cluster_size=given.cluster, copy=True).fit_predict(reduced)
    for cluster in range(clusters.max() + 1):
        members = np.flatnonzero(clusters == cluster)
        middle = vectors[members].mean(axis=0)
        typical = members[(vectors[members] @ middle).argmax()]
        print(f"cluster {cluster}: {len(members)} photos such as {paths[typical]}")
    print(f"{(clusters < 0).sum()} photos belong to none")

    places = UMAP(min_dist=0.9, **settings).fit_transform(vectors)
    draw(places, paths, clusters, given.output)
    print(f"the map is {given.output}")


if __name__ == "__main__":
    main()
